#include "executor/backends/cuda/numbered_steps.h"

#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {
namespace {

using cpu::Tensor;

NumberedStep StepOf(Kernel kernel, std::vector<int> in, std::vector<int> out) {
  NumberedStep step;
  step.step.set_kernel(kernel);
  step.in = std::move(in);
  step.out = std::move(out);
  return step;
}

TEST(NumberedSteps, NumbersAreSmallAndDiffer) {
  for (const DType dtype : {FP64, FP32, BF16}) {
    const Tensor a = Matrix(dtype, 7, 9, 1), b = Matrix(dtype, 7, 9, 2);
    int same = 0;
    for (int64_t i = 0; i < 63; ++i) {
      EXPECT_GE(a.Get(i), 0);
      EXPECT_LE(a.Get(i), 2.01);
      if (i > 0) {
        EXPECT_NE(a.Get(i), a.Get(i - 1)) << i;
      }
      same += a.Get(i) == b.Get(i);
    }
    EXPECT_LT(same, 5);
  }
}

// Steps run one after the other: a step reads what the step before it has written, and all other tensors keep their
// values.
TEST(NumberedSteps, BehindThemIsWhatTheyLeave) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 4; ++i) tensors.push_back(Matrix(FP64, 3, 5, i));
  const auto after = TensorsAfter({StepOf(ADD, {0, 1}, {2}), StepOf(ADD, {2, 1}, {3})}, tensors, false);
  std::vector<Tensor> expected = tensors;
  for (int64_t i = 0; i < 15; ++i) {
    expected[2].Set(i, tensors[0].Get(i) + tensors[1].Get(i));
    expected[3].Set(i, expected[2].Get(i) + tensors[1].Get(i));
  }
  ASSERT_EQ(after.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(after[i] == expected[i].bytes()) << i;
}

// An ADD and the norm of its sum form a run; an ADD alone does not.
TEST(NumberedSteps, SomeAreARun) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 4; ++i) tensors.push_back(Matrix(FP32, 4, 64, i));
  tensors.push_back(Matrix(FP32, 1, 64, 4));
  tensors.push_back(Matrix(FP32, 1, 4, 5));
  NumberedStep norm = StepOf(RMS_NORM, {2, 4}, {3, 5});
  norm.step.mutable_attributes()->set_epsilon(1e-5);
  const NumberedStep sum = StepOf(ADD, {0, 1}, {2});
  EXPECT_TRUE(IsRun({sum, norm}, tensors));
  EXPECT_FALSE(IsRun({sum}, tensors));
  ExpectSameBehind({sum, norm}, tensors);
  EXPECT_EQ(TensorsAfter({sum, norm}, tensors, true).size(), tensors.size());
  // Steps that form no run cannot be compared as one; the helper reports that.
  EXPECT_NONFATAL_FAILURE(TensorsAfter({sum}, tensors, true), "prepared");
}

}  // namespace
}  // namespace weft::exec::cuda
