// Tests the sums over rows that steps ask for: which rows of which samples, where the results lie, and which steps are
// refused. The conformance tests check the sums for all shapes and types.
#include <memory>
#include <string>
#include <vector>

#include "executor/backends/cpu/cpu_test_util.h"
#include "executor/backends/cuda/counting_device.h"
#include "executor/backends/cuda/cuda_backend.h"
#include "executor/backends/cuda/emulated_libraries.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {
namespace {

using cpu::Tensor;
using testing::HasSubstr;

Step StepOf(Kernel kernel, int64_t sequence = 0) {
  Step step;
  step.set_name("sums");
  step.set_kernel(kernel);
  if (sequence > 0) step.mutable_attributes()->set_sequence(sequence);
  return step;
}

absl::Status RunStep(const Step& step, std::vector<Tensor>& in, std::vector<Tensor>& out) {
  CountingDevice device;
  const auto backend = MakeBackend(&device, EmulatedLibraries(), {});
  EXPECT_TRUE(backend.ok()) << backend.status();
  return cpu::RunStep(**backend, step, in, out);
}

std::string Refusal(const Step& step, std::vector<Tensor> in, std::vector<Tensor> out) {
  const absl::Status status = RunStep(step, in, out);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

// Returns a matrix whose element (row, column) is row + 100 column.
Tensor Rows(int64_t rows, int64_t columns) {
  Tensor tensor(FP32, {rows, columns});
  for (int64_t i = 0; i < rows * columns; ++i) tensor.Set(i, static_cast<double>(i / columns + 100 * (i % columns)));
  return tensor;
}

std::vector<double> Values(const Tensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.size(); ++i) values.push_back(tensor.Get(i));
  return values;
}

TEST(CudaColumnSums, ABiasIsSummedOverAllRowsOrAddedTo) {
  std::vector<Tensor> in = {Rows(4, 2)}, out = {Tensor(FP32, {2})};
  Step step = StepOf(BIAS_GRADIENT);
  ASSERT_EQ(RunStep(step, in, out), absl::OkStatus());
  EXPECT_THAT(Values(out[0]), testing::ElementsAre(6, 406));
  step.set_accumulate(true);
  ASSERT_EQ(RunStep(step, in, out), absl::OkStatus());
  EXPECT_THAT(Values(out[0]), testing::ElementsAre(12, 812));
}

TEST(CudaColumnSums, EverySampleHasItsOwnRows) {
  std::vector<Tensor> in = {Rows(6, 2)}, out = {Tensor(FP32, {3, 2})};
  ASSERT_EQ(RunStep(StepOf(SUM_PER_SAMPLE, 2), in, out), absl::OkStatus());
  EXPECT_THAT(Values(out[0]), testing::ElementsAre(1, 201, 5, 205, 9, 209));
}

// For each sample, the sums of dy x come first, then the sums of dy.
TEST(CudaColumnSums, ScaleAndShiftLieSideBySide) {
  Tensor twos(FP32, {4, 2});
  for (int i = 0; i < 8; ++i) twos.Set(i, 2);
  std::vector<Tensor> in = {Rows(4, 2), twos}, out = {Tensor(FP32, {2, 4})};
  ASSERT_EQ(RunStep(StepOf(SCALE_SHIFT_BACKWARD_SAMPLE, 2), in, out), absl::OkStatus());
  EXPECT_THAT(Values(out[0]), testing::ElementsAre(2, 402, 1, 201, 10, 410, 5, 205));
}

TEST(CudaColumnSums, ShapesThatDoNotGoTogetherAreRefused) {
  EXPECT_THAT(Refusal(StepOf(BIAS_GRADIENT), {Rows(4, 2)}, {Tensor(FP32, {3})}),
              HasSubstr("an output has 3 elements; it must have 2"));
  EXPECT_THAT(Refusal(StepOf(SUM_PER_SAMPLE, 4), {Rows(6, 2)}, {Tensor(FP32, {3, 2})}),
              HasSubstr("6 rows do not divide into samples of 4 rows"));
  EXPECT_THAT(Refusal(StepOf(SUM_PER_SAMPLE), {Rows(6, 2)}, {Tensor(FP32, {3, 2})}),
              HasSubstr("6 rows do not divide into samples of 0 rows"));
  EXPECT_THAT(Refusal(StepOf(SUM_PER_SAMPLE, 2), {Rows(6, 2)}, {Tensor(FP32, {2, 2})}),
              HasSubstr("the output has 4 elements; it must have 6"));
  EXPECT_THAT(Refusal(StepOf(SCALE_SHIFT_BACKWARD_SAMPLE, 2), {Rows(4, 2), Rows(4, 2)}, {Tensor(FP32, {2, 2})}),
              HasSubstr("the output has 4 elements; it must have 8"));
  EXPECT_THAT(
      Refusal(StepOf(LAYER_NORM_BACKWARD_WEIGHT), {Rows(4, 2), Rows(4, 2), Tensor(FP32, {4}), Tensor(FP32, {4})},
              {Tensor(FP32, {2}), Tensor(FP32, {1})}),
      HasSubstr("an output has 1 elements; it must have 2"));
}

}  // namespace
}  // namespace weft::exec::cuda
