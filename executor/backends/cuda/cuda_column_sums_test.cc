// Tests that steps sum the right rows of the right samples and write the results to the right elements. The conformance
// tests check the sums for all shapes and types.
#include <memory>
#include <vector>

#include "executor/backends/cpu/cpu_test_util.h"
#include "executor/backends/cuda/counting_device_testing.h"
#include "executor/backends/cuda/cuda_backend.h"
#include "executor/backends/cuda/emulated_libraries.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {
namespace {

using cpu::Tensor;

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

// The result has one row per sample: the column sums of dy x, then the column sums of dy.
TEST(CudaColumnSums, ScaleAndShiftLieSideBySide) {
  Tensor twos(FP32, {4, 2});
  for (int i = 0; i < 8; ++i) twos.Set(i, 2);
  std::vector<Tensor> in = {Rows(4, 2), twos}, out = {Tensor(FP32, {2, 4})};
  ASSERT_EQ(RunStep(StepOf(SCALE_SHIFT_BACKWARD_SAMPLE, 2), in, out), absl::OkStatus());
  EXPECT_THAT(Values(out[0]), testing::ElementsAre(2, 402, 1, 201, 10, 410, 5, 205));
}

}  // namespace
}  // namespace weft::exec::cuda
