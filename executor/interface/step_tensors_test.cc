#include "executor/interface/step_tensors.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace weft::exec {
namespace {

TensorView View(DType dtype, const std::vector<int64_t>& shape) { return {nullptr, dtype, shape}; }

Step StepOf(Kernel kernel) {
  Step step;
  step.set_name("h.0");
  step.set_kernel(kernel);
  return step;
}

TEST(StepTensors, TensorsAreMatricesOfTheirLastExtent) {
  const std::vector<int64_t> cube = {2, 3, 5}, row = {7}, scalar = {}, empty = {4, 0};
  EXPECT_EQ(Rows(View(FP32, cube)), 6);
  EXPECT_EQ(Columns(View(FP32, cube)), 5);
  EXPECT_EQ(Rows(View(FP32, row)), 1);
  EXPECT_EQ(Columns(View(FP32, scalar)), 1);
  EXPECT_EQ(Rows(View(FP32, scalar)), 1);
  EXPECT_EQ(Rows(View(FP32, empty)), 0);
}

TEST(StepTensors, AStepThatDoesNotFitItsRowIsRefusedInOneLine) {
  const std::vector<int64_t> square = {2, 2}, wide = {2, 3};
  const Step step = StepOf(MATMUL);
  const TensorView real = View(BF16, square);
  EXPECT_EQ(CheckStep(step, {real, real}, {real}), absl::OkStatus());
  EXPECT_EQ(CheckStep(step, {real}, {real}),
            absl::InvalidArgumentError(
                "step 'h.0', kernel MATMUL: P2.kernel has 1 inputs and 1 outputs, takes 2 to 3 and 1"));
  EXPECT_EQ(CheckStep(step, {real, View(INT32, square)}, {real}),
            absl::InvalidArgumentError("step 'h.0', kernel MATMUL: P2.kernel value 'input 1' int32 [2,2] must be fp32 "
                                       "or fp64 or bf16 or fp16"));
  EXPECT_EQ(CheckStep(step, {real, real}, {View(FP32, wide)}),
            absl::InvalidArgumentError(
                "step 'h.0', kernel MATMUL: P2.kernel value 'output 0' fp32 [2,3] must have shape [2,2]"));
  EXPECT_EQ(CheckStep(StepOf(KERNEL_UNSPECIFIED), {}, {}),
            absl::InvalidArgumentError("step 'h.0', kernel KERNEL_UNSPECIFIED: names no kernel"));
}

TEST(StepTensors, TheLossOfAStepIsThatOfItsMicrobatch) {
  const std::vector<int64_t> shape = {3};
  double losses[3];
  const TensorView view = {losses, FP64, shape};
  StepContext context;
  context.global_microbatch = 2;
  EXPECT_EQ(LossOf(StepOf(CROSS_ENTROPY), view, context).value(), losses + 2);
  for (const int64_t outside : {-1, 3}) {
    context.global_microbatch = outside;
    EXPECT_TRUE(absl::IsOutOfRange(LossOf(StepOf(CROSS_ENTROPY), view, context).status()));
  }
}

TEST(StepTensors, ASliceIsAmongTheColumnsOfAllGroups) {
  const std::vector<int64_t> of_x = {6, 2}, of_y = {3, 3};
  Step step = StepOf(SLICE_COLUMNS);
  step.mutable_attributes()->set_groups(2);
  StepContext context;
  const auto first = [&](int64_t own, int64_t shift) {
    step.mutable_attributes()->set_first_column(own);
    context.column_shift = shift;
    return FirstColumnOfSlice(step, View(FP32, of_x), View(FP32, of_y), context);
  };
  EXPECT_EQ(first(0, 1).value(), 1);
  EXPECT_EQ(first(1, 0).value(), 1);
  EXPECT_TRUE(absl::IsInvalidArgument(first(0, -1).status()));
  EXPECT_EQ(first(1, 1).status(),
            absl::InvalidArgumentError("step 'h.0': 3 columns from 2 on are not among the input's 4"));
}

TEST(StepTensors, RandomCountersNumberTheElementsOfASample) {
  const std::vector<int64_t> shape = {1 << 20, 1 << 16};
  Step step = StepOf(DROPOUT);
  StepContext context;
  context.microbatch_sequences = 4;
  const TensorView x = View(BF16, shape);
  EXPECT_EQ(RowsOfSample(step, x, context), 1 << 18);
  EXPECT_TRUE(CheckDropout(step, x, context).ok());
  step.mutable_attributes()->set_dropout(0.5);
  context.microbatch_sequences = 2;
  EXPECT_TRUE(absl::IsInvalidArgument(CheckDropout(step, x, context)));
  context.microbatch_sequences = 4;
  EXPECT_TRUE(CheckDropout(step, x, context).ok());
  step.mutable_attributes()->set_whole_columns((1 << 16) + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(CheckDropout(step, x, context)));
  // Attention: the elements are the pairs of positions of each head.
  step.mutable_attributes()->set_whole_columns(0);
  step.mutable_attributes()->set_sequence(1 << 16);
  step.mutable_attributes()->set_heads(4);
  EXPECT_TRUE(CheckDropout(step, x, context).ok());
  step.mutable_attributes()->set_heads(5);
  EXPECT_EQ(CheckDropout(step, x, context),
            absl::InvalidArgumentError("step 'h.0': 21474836480 elements of one sample at a dropout site; allowed: at "
                                       "most 2^34"));
}

}  // namespace
}  // namespace weft::exec
