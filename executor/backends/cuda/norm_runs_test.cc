// Tests runs of steps that become one launch: a norm or activation, the ADD next to it, and the sums over rows of their
// results. The launch must give the bits of the steps one by one. Also tests which steps form no run.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_test_util.h"
#include "executor/backends/cuda/kernels/norm.h"
#include "executor/backends/cuda/numbered_steps.h"
#include "gtest/gtest.h"
#include "proto/util/step_runs.h"

namespace weft::exec::cuda {
namespace {

using cpu::Tensor;

// Compares a norm and the ADD next to it, run as one launch, with the two steps run one after the other.
class NormWithSumTest : public testing::TestWithParam<Kernel> {};

// Rows that fit in the registers of a warp, rows that fit in those of a block, rows with four eights for each thread,
// and rows that are read again; also odd lengths.
const std::vector<int64_t> kColumns = {8, 33, 512, 768, 1000, 4096, 9000, 16392};

TEST_P(NormWithSumTest, IsTheTwoOneAfterTheOther) {
  const Kernel kernel = GetParam();
  const bool centered = kernel == LAYER_NORM || kernel == LAYER_NORM_BACKWARD;
  const bool forward = kernel == LAYER_NORM || kernel == RMS_NORM;
  for (const int64_t columns : kColumns) {
    for (const DType type : {BF16, FP16, FP32, FP64}) {
      // The sum may have another type than its terms.
      for (const DType of_sum : {type, type == BF16 ? FP32 : type}) {
        SCOPED_TRACE(absl::StrCat(Kernel_Name(kernel), " ", columns, " ", DType_Name(type), " ", DType_Name(of_sum)));
        const int64_t rows = columns > 8000 ? 2 : 11;
        const DType statistic = type == FP64 ? FP64 : FP32;
        NumberedStep sum, norm;
        sum.step.set_kernel(ADD);
        norm.step.set_kernel(kernel);
        norm.step.mutable_attributes()->set_epsilon(1e-5);
        std::vector<Tensor> tensors;
        for (int i = 0; i < 6; ++i) tensors.push_back(Matrix(i == 2 ? of_sum : type, rows, columns, i));
        const int gamma = 6, beta = 7, mean = 8, rstd = 9;
        for (int i = 0; i < 2; ++i) tensors.push_back(Matrix(type, 1, columns, 6 + i));
        for (int i = 0; i < 2; ++i) tensors.push_back(Matrix(statistic, 1, rows, 8 + i));
        if (forward) {
          sum.in = {0, 1};
          sum.out = {2};
          norm.in = centered ? std::vector<int>{2, gamma, beta} : std::vector<int>{2, gamma};
          norm.out = centered ? std::vector<int>{3, mean, rstd} : std::vector<int>{3, rstd};
          ExpectSameBehind({sum, norm}, tensors);
          // The norm overwrites one term, and the sum overwrites the other.
          norm.out[0] = 1;
          if (of_sum == type) sum.out[0] = norm.in[0] = 0;
          ExpectSameBehind({sum, norm}, tensors);
        } else {
          norm.in = centered ? std::vector<int>{0, 1, gamma, mean, rstd} : std::vector<int>{0, 1, gamma, rstd};
          norm.out = {2};
          for (const bool first : {false, true}) {
            sum.in = first ? std::vector<int>{2, 3} : std::vector<int>{3, 2};
            sum.out = {first ? 4 : 3};
            ExpectSameBehind({norm, sum}, tensors);
          }
          // The sum overwrites an input of the norm.
          sum.out = {0};
          ExpectSameBehind({norm, sum}, tensors);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, NormWithSumTest,
                         testing::Values(LAYER_NORM, RMS_NORM, LAYER_NORM_BACKWARD, RMS_NORM_BACKWARD),
                         [](const auto& info) { return Kernel_Name(info.param); });

// Sums over rows run together with the step that computes the rows.
class WithSumsTest : public testing::TestWithParam<DType> {};

// Tests the backward kernel of a norm, the gradients of its weights, the residual's sum and the gradient of the bias
// before it. Tensors have type `type`, but statistics and gradients of gamma, beta and bias are FP32. In the last case
// the sum overwrites the tensor that `in_place` selects: dy, x or the residual.
void ExpectSumsOfNormBehind(DType type, int64_t rows, int64_t columns, bool centered, bool accumulate, int in_place) {
  std::vector<Tensor> tensors;
  const auto add = [&](Tensor tensor) {
    tensors.push_back(std::move(tensor));
    return static_cast<int>(tensors.size()) - 1;
  };
  const int dy = add(Matrix(type, rows, columns, 1)), x = add(Matrix(type, rows, columns, 2)),
            dx = add(Matrix(type, rows, columns, 3)), residual = add(Matrix(type, rows, columns, 4)),
            sum_of = add(Matrix(type, rows, columns, 5)), gamma = add(Matrix(type, 1, columns, 6)),
            mean = add(Matrix(FP32, 1, rows, 7)), rstd = add(Matrix(FP32, 1, rows, 8)),
            dgamma = add(Matrix(FP32, 1, columns, 9)), dbeta = add(Matrix(FP32, 1, columns, 10)),
            dbias = add(Matrix(FP32, 1, columns, 11));
  NumberedStep norm, weights, sum, bias;
  norm.step.set_kernel(centered ? LAYER_NORM_BACKWARD : RMS_NORM_BACKWARD);
  norm.in = centered ? std::vector<int>{dy, x, gamma, mean, rstd} : std::vector<int>{dy, x, gamma, rstd};
  norm.out = {dx};
  weights.step.set_kernel(centered ? LAYER_NORM_BACKWARD_WEIGHT : RMS_NORM_BACKWARD_WEIGHT);
  weights.step.set_accumulate(accumulate);
  weights.in = centered ? std::vector<int>{dy, x, mean, rstd} : std::vector<int>{dy, x, rstd};
  weights.out = centered ? std::vector<int>{dgamma, dbeta} : std::vector<int>{dgamma};
  sum.step.set_kernel(ADD);
  sum.in = {residual, dx};
  sum.out = {sum_of};
  bias.step.set_kernel(BIAS_GRADIENT);
  bias.step.set_accumulate(!accumulate);
  bias.in = {sum_of};
  bias.out = {dbias};
  ExpectSameBehind({norm, weights, sum}, tensors);
  ExpectSameBehind({norm, weights, sum, bias}, tensors);
  // The sum overwrites an input of the norm or one of its own inputs.
  sum.out = bias.in = {in_place == 0 ? dy : in_place == 1 ? x : residual};
  ExpectSameBehind({norm, weights, sum, bias}, tensors);
}

// Tests a turn with one row, several turns, and several chunks; rows that are whole eights and rows that are not.
TEST_P(WithSumsTest, ABackwardOfANormIsItsStepsOneAfterTheOther) {
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{5, 1600}, {19, 1032}, {40, 1029}, {70, 3592}, {3, 4096}, {9, 8192}}) {
    for (const bool centered : {false, true}) {
      const bool accumulate = centered == (rows % 2 == 0);
      SCOPED_TRACE(absl::StrCat(rows, " x ", columns, " ", centered, accumulate));
      ExpectSumsOfNormBehind(GetParam(), rows, columns, centered, accumulate, rows == 5 ? 0 : rows == 19 ? 1 : 2);
    }
  }
}

// With this many rows, a turn takes two rows of each chunk, and one or two rows of the last chunk. In the last chunk,
// the distance from the very last row to the end equals the distance between the two rows of a turn.
TEST_P(WithSumsTest, ATurnOfSeveralRowsIsAddedUpToItsEnd) {
  for (const int64_t rows : {2127, 2200}) {
    SCOPED_TRACE(rows);
    ExpectSumsOfNormBehind(GetParam(), rows, 2056, /*centered=*/rows == 2127, /*accumulate=*/true, /*in_place=*/2);
  }
}

TEST_P(WithSumsTest, AnActivationAndTheBiasBeforeItAreTheTwo) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{3, 8}, {77, 600}, {300, 33}, {1, 1}}) {
    for (const bool approximation : {false, true}) {
      SCOPED_TRACE(absl::StrCat(rows, " x ", columns, " ", approximation));
      std::vector<Tensor> tensors;
      for (int i = 0; i < 3; ++i) tensors.push_back(Matrix(GetParam(), rows, columns, i));
      tensors.push_back(Matrix(FP32, 1, columns, 9));
      NumberedStep gelu, bias;
      gelu.step.set_kernel(GELU_BACKWARD);
      gelu.step.mutable_attributes()->set_tanh_approximation(approximation);
      gelu.in = {0, 1};
      gelu.out = bias.in = {2};
      bias.step.set_kernel(BIAS_GRADIENT);
      bias.step.set_accumulate(approximation);
      bias.out = {3};
      ExpectSameBehind({gelu, bias}, tensors);
      for (const int place : {0, 1}) {
        gelu.out = bias.in = {place};
        ExpectSameBehind({gelu, bias}, tensors);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, WithSumsTest, testing::Values(BF16, FP16, FP32),
                         [](const auto& info) { return DType_Name(info.param); });

// proto/util/step_runs.h states, as a rule of programs, which norms have sums. HasSums depends on what fits into the
// kernels. The two must agree.
TEST(NormRunsTest, NormsThatHaveSums) {
  Step backward, weights, add;
  backward.set_kernel(RMS_NORM_BACKWARD);
  weights.set_kernel(RMS_NORM_BACKWARD_WEIGHT);
  add.set_kernel(ADD);
  for (Step* const step : {&backward, &weights, &add}) step->set_stream(COMPUTE);
  float anything = 0;
  NormBackward norm;
  norm.sum = {&anything, Type::kFp32};
  norm.rows = 4;
  std::set<bool> seen;
  for (const int64_t columns : {8, 1024, 1025, 1032, 8192, 8193, 8200, 20000}) {
    norm.columns = columns;
    uint64_t next = 0;
    const auto tensor = [&](int64_t elements) {
      const uint64_t begin = next;
      next += static_cast<uint64_t>(4 * elements);
      return StepTouch{begin, next, FP32};
    };
    const StepTouch dy = tensor(4 * columns), x = tensor(4 * columns), dx = tensor(4 * columns),
                    residual = tensor(4 * columns), gamma = tensor(columns), dgamma = tensor(columns), rstd = tensor(4);
    const std::vector<PlacedStep> steps = {{&backward, {dy, x, gamma, rstd}, {dx}},
                                           {&weights, {dy, x, rstd}, {dgamma}},
                                           {&add, {residual, dx}, {residual}}};
    const std::vector<StepRange> ranges = FindNormRuns(steps);
    ASSERT_EQ(ranges.size(), 1u);
    EXPECT_EQ(ranges[0].launches.size() == 1, HasSums(norm)) << columns;
    seen.insert(HasSums(norm));
  }
  EXPECT_EQ(seen.size(), 2u);
}

TEST(NormRunsTest, NormsThatAreNotWithTheirSum) {
  NumberedStep sum, norm;
  sum.step.set_kernel(ADD);
  sum.in = {0, 1};
  sum.out = {2};
  norm.step.set_kernel(RMS_NORM);
  norm.in = {2, 3};
  norm.out = {4, 5};
  const auto is_run = [&](const NumberedStep& first, const NumberedStep& second, DType type, DType of_gamma) {
    std::vector<Tensor> tensors;
    for (int i = 0; i < 6; ++i) tensors.push_back(i == 3 ? Tensor(of_gamma, {8}) : Tensor(type, {4, 8}));
    tensors[5] = Tensor(FP32, {4});
    return IsRun({first, second}, tensors);
  };
  EXPECT_TRUE(is_run(sum, norm, FP32, FP32));
  // The norm computes in double, but its sum does not.
  EXPECT_FALSE(is_run(sum, norm, FP32, FP64));
  NumberedStep of_another = norm;
  of_another.in[0] = 1;
  EXPECT_FALSE(is_run(sum, of_another, FP32, FP32));
  EXPECT_FALSE(is_run(sum, sum, FP32, FP32));
}

}  // namespace
}  // namespace weft::exec::cuda
