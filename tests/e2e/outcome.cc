#include "tests/e2e/outcome.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "executor/data/data.h"
#include "gtest/gtest.h"
#include "proto/util/status.h"

namespace weft {
namespace {

bool SameBits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

}  // namespace

std::string TinyTextPath() {
  static const std::string path = [] {
    const std::string file = ::testing::TempDir() + "/tiny.txt";
    EXPECT_TRUE(WriteTinyText(file).ok());
    return file;
  }();
  return path;
}

absl::StatusOr<exec::RunResult> Train(const Program& program, exec::RunOptions options) {
  WEFT_ASSIGN_OR_RETURN(const auto data, OpenTinyText(TinyTextPath(), program));
  options.collect_weights = true;
  return exec::RunInProcess(program, *data, options);
}

absl::StatusOr<exec::RunResult> Train(const TinyPlan& plan, exec::RunOptions options) {
  WEFT_ASSIGN_OR_RETURN(const Program program, CompileTiny(plan));
  return Train(program, std::move(options));
}

Outcome OutcomeOf(const exec::RunResult& result) {
  Outcome outcome;
  for (const RunStep& step : result.report.steps()) {
    outcome.losses.push_back(step.loss());
    outcome.norms.push_back(step.grad_norm());
  }
  for (const exec::TensorData& tensor : result.weights) outcome.weights.push_back(tensor.bytes);
  return outcome;
}

absl::StatusOr<Outcome> TrainTiny(const TinyPlan& plan, exec::RunOptions options) {
  WEFT_ASSIGN_OR_RETURN(const exec::RunResult result, Train(plan, std::move(options)));
  return OutcomeOf(result);
}

std::string TinyImagePath() {
  static const std::string path = [] {
    const std::string file = ::testing::TempDir() + "/waves.img";
    EXPECT_TRUE(WriteTinyImages(file).ok());
    return file;
  }();
  return path;
}

absl::StatusOr<Outcome> TrainUnet(const UnetPlan& plan, exec::RunOptions options) {
  WEFT_ASSIGN_OR_RETURN(const Program program, CompileUnet(plan));
  WEFT_ASSIGN_OR_RETURN(const auto data, exec::OpenData(exec::DataOptionsOf(program, TinyImagePath())));
  options.collect_weights = true;
  WEFT_ASSIGN_OR_RETURN(const exec::RunResult result, exec::RunInProcess(program, *data, options));
  return OutcomeOf(result);
}

void ExpectSame(const Outcome& a, const Outcome& b, const std::string& what) {
  EXPECT_TRUE(SameBits(a.losses, b.losses)) << what;
  EXPECT_TRUE(SameBits(a.norms, b.norms)) << what;
  for (size_t i = 0; i < std::min(a.losses.size(), b.losses.size()); ++i) {
    if (a.losses[i] == b.losses[i] && a.norms[i] == b.norms[i]) continue;
    ADD_FAILURE() << what << ": first difference in step " << i << ": loss " << a.losses[i] << " against "
                  << b.losses[i] << ", norm " << a.norms[i] << " against " << b.norms[i];
    break;
  }
  ASSERT_EQ(a.weights.size(), b.weights.size()) << what;
  for (size_t i = 0; i < a.weights.size(); ++i) EXPECT_TRUE(a.weights[i] == b.weights[i]) << what << ": tensor " << i;
}

void ExpectClose(const Outcome& a, const Outcome& b, const std::string& what, double tolerance) {
  ASSERT_EQ(a.losses.size(), b.losses.size()) << what;
  for (size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_NEAR(a.losses[i], b.losses[i], tolerance * b.losses[i]) << what << " step " << i;
    EXPECT_NEAR(a.norms[i], b.norms[i], 10 * tolerance * b.norms[i]) << what << " step " << i;
  }
}

}  // namespace weft
