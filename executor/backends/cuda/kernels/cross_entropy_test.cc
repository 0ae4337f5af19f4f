// Tests cases that random data does not cover: rows without a finite logit, batches in which no row counts, wrong
// targets, and more elements than 32 bits count. conformance/loss_cases.cc tests all other values.
#include "executor/backends/cuda/kernels/cross_entropy.cu"

#include <cmath>
#include <limits>
#include <vector>

#include "executor/backends/cuda/kernels/block_of_grid_testing.h"

namespace weft::exec::cuda {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class CrossEntropyTest : public testing::Test {
 protected:
  // Sets rows of `columns` logits and their targets.
  void Given(std::vector<float> logits, std::vector<int32_t> targets) {
    logits_ = std::move(logits);
    targets_ = std::move(targets);
    given_.values = {logits_.data(), Type::kFp32};
    given_.rows = static_cast<int64_t>(targets_.size());
    given_.columns = given_.vocabulary = static_cast<int64_t>(logits_.size() / targets_.size());
    given_.targets = targets_.data();
    lse_.assign(targets_.size(), -1);
  }
  double Loss() {
    double loss = -1;
    std::vector<double> of_rows(targets_.size());
    EXPECT_EQ(Launch(LogitsLoss{given_, 0.5, {lse_.data(), Type::kFp32}, &loss, of_rows.data()}, nullptr), nullptr);
    return loss;
  }
  std::vector<float> Gradient() {
    std::vector<float> gradient(logits_.size(), -1);
    const LogitsGradient args = {given_, {lse_.data(), Type::kFp32}, 0.5, nullptr, {gradient.data(), Type::kFp32}};
    EXPECT_EQ(Launch(args, nullptr), nullptr);
    return gradient;
  }

  std::vector<float> logits_, lse_;
  std::vector<int32_t> targets_;
  Logits given_;
};

TEST_F(CrossEntropyTest, NothingCounts) {
  Given({1, 2, 3, 4, 5, 6}, {-1, -1});
  EXPECT_EQ(Loss(), 0);
  EXPECT_EQ(Gradient(), std::vector<float>(6, 0));
}

TEST_F(CrossEntropyTest, OneTokenCounts) {
  Given({1, 2, 3, 0, 0, 0, 7, 8, 9}, {-1, 2, -1});
  EXPECT_NEAR(Loss(), 0.5 * std::log(3.0), 1e-7);
  const std::vector<float> gradient = Gradient();
  for (const int i : {0, 1, 2, 6, 7, 8}) EXPECT_EQ(gradient[i], 0);
  EXPECT_NEAR(gradient[3], 0.5 / 3, 1e-7);
  EXPECT_NEAR(gradient[5], 0.5 / 3 - 0.5, 1e-7);
}

// A logit of -infinity has no probability, and no gradient.
TEST_F(CrossEntropyTest, SomeLogitsAreMinusInfinity) {
  Given({-kInf, 0, -kInf, 0, -kInf, -kInf, -kInf, -kInf, -kInf, -kInf}, {1});
  EXPECT_NEAR(Loss(), 0.5 * std::log(2.0), 1e-7);
  const std::vector<float> gradient = Gradient();
  EXPECT_EQ(gradient[0], 0);
  EXPECT_NEAR(gradient[1], -0.25, 1e-7);
  EXPECT_NEAR(gradient[3], 0.25, 1e-7);
  EXPECT_EQ(gradient[9], 0);
}

TEST_F(CrossEntropyTest, ARowWithoutAFiniteLogitIsNotAProbability) {
  Given({-kInf, -kInf, -kInf}, {1});
  EXPECT_TRUE(std::isnan(Loss()));
  EXPECT_EQ(lse_[0], -kInf);
}

// A NaN may be anywhere: a thread or a merge that takes the larger of two numbers must not lose it.
TEST_F(CrossEntropyTest, NaNAndInfinityAreNotLost) {
  for (const float bad : {kNaN, kInf}) {
    for (const int place : {0, 7, 8, 300, 5000}) {
      std::vector<float> logits(5003, 1);
      logits[place] = bad;
      Given(logits, {2});
      EXPECT_FALSE(std::isfinite(Loss())) << bad << " at " << place;
    }
  }
  std::vector<float> logits(5003, -kInf);
  logits[4000] = kNaN;
  Given(logits, {2});
  EXPECT_TRUE(std::isnan(Loss()));
}

TEST_F(CrossEntropyTest, LargeLogitsDoNotOverflow) {
  Given({3e38f, 3e38f, -3e38f}, {0});
  EXPECT_TRUE(std::isfinite(Loss()));
  EXPECT_EQ(Gradient()[2], 0);
}

TEST_F(CrossEntropyTest, ATargetBeyondTheVocabularyMakesNaN) {
  Given({1, 2, 3, 4}, {3});
  EXPECT_TRUE(std::isfinite(Loss()));
  given_.vocabulary = 3;
  EXPECT_TRUE(std::isnan(Loss()));
}

// Tests more rows than the block that adds them up has threads, and more than these threads load together.
TEST_F(CrossEntropyTest, EveryRowCountsOnce) {
  for (const int rows : {1, 1023, 1025, 8200}) {
    std::vector<int32_t> targets(rows, 0);
    targets[rows / 2] = -1;
    Given(std::vector<float>(2 * rows, 3), targets);
    EXPECT_NEAR(Loss(), 0.5 * (rows - 1) * std::log(2.0), 1e-4 * rows) << rows;
  }
}

// Row 100,000 of 50,304 columns begins at element 5.03 * 10^9.
TEST_F(CrossEntropyTest, MoreElementsThan32BitsCount) {
  constexpr int64_t kRows = 100002, kColumns = 50304, kRow = 100000;
  const SparseMemory logits(kRows * kColumns * 2), lse(kRows * 4), targets(kRows * 4);
  ASSERT_TRUE(logits.good() && lse.good() && targets.good());
  targets.data<int32_t>()[kRow] = 17;
  // This logit is larger by ln 2 than the zeros around it.
  logits.data<uint16_t>()[kRow * kColumns + 17] = ToBf16(std::log(2.0f)).bits;
  Logits given;
  given.values = {logits.data<void>(), Type::kBf16};
  given.rows = kRows;
  given.columns = given.vocabulary = kColumns;
  given.targets = targets.data<int32_t>();
  const Array lse_array = {lse.data<void>(), Type::kFp32};
  const SparseMemory of_rows(kRows * 8);
  ASSERT_TRUE(of_rows.good());
  const LogitsLoss loss = {given, 1, lse_array, nullptr, of_rows.data<double>()};
  RunBlock(LogSumExp<float, Type::kBf16>{loss}, kRow, kRows, kThreads, kFoldBytes<ExpSum<float>>);
  EXPECT_NEAR(lse.data<float>()[kRow], std::log(kColumns + 1.0), 1e-5);
  EXPECT_NEAR(of_rows.data<double>()[kRow], std::log((kColumns + 1) / 2.0), 2e-3);
  const LogitsGradient gradient = {given, lse_array, 1, nullptr, given.values};
  RunBlock(Backward<float, Type::kBf16>{gradient}, kRow, kRows, kThreads, 0);
  EXPECT_NEAR(ToFloat(Bf16{logits.data<uint16_t>()[kRow * kColumns + 17]}), -1, 1e-2);
  EXPECT_NEAR(ToFloat(Bf16{logits.data<uint16_t>()[kRow * kColumns + kColumns - 1]}), 1.0 / kColumns, 1e-7);
  EXPECT_EQ(logits.data<uint16_t>()[(kRow + 1) * kColumns], 0);
}

}  // namespace
}  // namespace weft::exec::cuda
