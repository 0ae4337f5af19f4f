// What a tiny model's training comes to under a plan, and how close that is to another plan's.
#ifndef WEFT_TESTS_E2E_OUTCOME_H_
#define WEFT_TESTS_E2E_OUTCOME_H_

#include <cstring>
#include <string>
#include <vector>

#include "executor/run.h"
#include "gtest/gtest.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {

struct Outcome {
  std::vector<double> losses, norms;
  std::vector<std::vector<std::byte>> weights;
};

inline absl::StatusOr<Outcome> TrainTiny(const TinyPlan& plan) {
  static const std::string path = [] {
    const std::string file = ::testing::TempDir() + "/tiny.txt";
    EXPECT_TRUE(WriteTinyText(file).ok());
    return file;
  }();
  const absl::StatusOr<Program> program = CompileTiny(plan);
  if (!program.ok()) return program.status();
  const auto data = OpenTinyText(path, *program);
  if (!data.ok()) return data.status();
  RunOptions options;
  options.collect_weights = true;
  const absl::StatusOr<RunResult> result = RunInProcess(*program, **data, options);
  if (!result.ok()) return result.status();
  Outcome outcome;
  for (const RunStep& step : result->report.steps()) {
    outcome.losses.push_back(step.loss());
    outcome.norms.push_back(step.grad_norm());
  }
  for (const TensorData& tensor : result->weights) outcome.weights.push_back(tensor.bytes);
  return outcome;
}

inline bool SameBits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

inline void ExpectSame(const Outcome& a, const Outcome& b, const std::string& what) {
  EXPECT_TRUE(SameBits(a.losses, b.losses))
      << what << ": losses, the first " << a.losses[0] << " against " << b.losses[0];
  EXPECT_TRUE(SameBits(a.norms, b.norms)) << what << ": norms, the first " << a.norms[0] << " against " << b.norms[0];
  ASSERT_EQ(a.weights.size(), b.weights.size()) << what;
  for (size_t i = 0; i < a.weights.size(); ++i) EXPECT_TRUE(a.weights[i] == b.weights[i]) << what << ": tensor " << i;
}

inline void ExpectClose(const Outcome& a, const Outcome& b, const std::string& what) {
  ASSERT_EQ(a.losses.size(), b.losses.size()) << what;
  for (size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_NEAR(a.losses[i], b.losses[i], 1e-5 * b.losses[i]) << what << " step " << i;
    EXPECT_NEAR(a.norms[i], b.norms[i], 1e-4 * b.norms[i]) << what << " step " << i;
  }
}

}  // namespace weft

#endif  // WEFT_TESTS_E2E_OUTCOME_H_
