// Runs of a program whose tensors are cut over x, z and, with ZeRO, data. The final weights are collected from their
// pieces. A run that continues from a checkpoint gives the same bits, on the same plan or on another one.
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "executor/run/run.h"
#include "executor/testing/test_data.h"
#include "gtest/gtest.h"
#include "tests/fresh_directory.h"
#include "verifier/testing/split_program.h"

namespace weft::exec {
namespace {

Program Trainable(bool zero) {
  Program program = SplitProgram(zero);
  program.mutable_recipe()->set_seed(7);
  program.mutable_recipe()->mutable_lr()->set_peak(0.05);
  for (LogicalTensor& tensor : *program.mutable_tensors()) {
    if (tensor.shape_size() > 1) tensor.set_init_normal(0.3);
  }
  return program;
}

RunResult Train(const Program& program, int64_t steps, const std::string& checkpoint, bool resume) {
  RunOptions options;
  options.steps = steps;
  options.collect_weights = true;
  options.timeout = std::chrono::seconds(20);
  options.checkpoint.directory = checkpoint;
  options.resume = resume;
  absl::StatusOr<RunResult> result = RunInProcess(program, TestData(program.vocabulary()), options);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : RunResult();
}

std::vector<std::vector<float>> Weights(const RunResult& result) {
  std::vector<std::vector<float>> weights;
  for (const TensorData& tensor : result.weights) {
    EXPECT_EQ(tensor.dtype, FP32);
    const float* values = reinterpret_cast<const float*>(tensor.bytes.data());
    weights.emplace_back(values, values + tensor.bytes.size() / sizeof(float));
  }
  return weights;
}

std::vector<double> Losses(const RunResult& result) {
  std::vector<double> losses;
  for (const RunStep& step : result.report.steps()) losses.push_back(step.loss());
  return losses;
}

TEST(SplitRunTest, TrainsTheSameWithAndWithoutZero) {
  const RunResult whole = Train(Trainable(false), 4, "", false), zero = Train(Trainable(true), 4, "", false);
  const std::vector<double> losses = Losses(whole), zero_losses = Losses(zero);
  ASSERT_EQ(losses.size(), 4u);
  ASSERT_EQ(zero_losses.size(), 4u);
  EXPECT_LT(losses[3], losses[0]);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(std::isfinite(losses[i]));
    EXPECT_NEAR(zero_losses[i], losses[i], 1e-5 * std::abs(losses[i]));
  }
  const auto a = Weights(whole), b = Weights(zero);
  ASSERT_EQ(a.size(), b.size());
  for (size_t t = 0; t < a.size(); ++t) {
    ASSERT_EQ(a[t].size(), b[t].size());
    for (size_t i = 0; i < a[t].size(); ++i) EXPECT_NEAR(a[t][i], b[t][i], 1e-4) << "tensor " << t << " [" << i << "]";
  }
}

TEST(SplitRunTest, AResumeContinuesBitForBit) {
  for (const bool zero : {false, true}) {
    const Program program = Trainable(zero);
    const RunResult all = Train(program, 4, "", false);
    const std::string directory = FreshDirectory("split_resume");
    Train(program, 2, directory, false);
    const RunResult rest = Train(program, 4, directory, true);
    EXPECT_EQ(rest.first_step, 2);
    EXPECT_EQ(Weights(rest), Weights(all)) << "zero " << zero;
    const std::vector<double> losses = Losses(all);
    EXPECT_EQ(Losses(rest), std::vector<double>(losses.begin() + 2, losses.end()));
  }
}

TEST(SplitRunTest, ACheckpointOfTheOnePlanIsTheOthers) {
  const std::string directory = FreshDirectory("split_other");
  const RunResult first = Train(Trainable(true), 2, directory, false);
  // No step is left to do, so the run's weights are the weights that it loads.
  const RunResult other = Train(Trainable(false), 2, directory, true);
  EXPECT_EQ(Weights(other), Weights(first));
  EXPECT_EQ(other.first_step, 2);
}

}  // namespace
}  // namespace weft::exec
