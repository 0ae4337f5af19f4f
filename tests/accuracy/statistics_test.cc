#include "tests/accuracy/statistics.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(Statistics, MedianAndMean) {
  EXPECT_EQ(Median({}), 0);
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(Mean({}), 0);
  EXPECT_EQ(Mean({1, 2, 6}), 3);
}

TEST(CompareRanks, OrderAndRegret) {
  const std::vector<double> measured = {1, 2, 3, 4};
  EXPECT_EQ(CompareRanks(measured, {10, 20, 30, 40}, 0.05).tau, 1);
  EXPECT_EQ(CompareRanks(measured, {10, 20, 30, 40}, 0.05).regret, 0);
  EXPECT_EQ(CompareRanks(measured, {40, 30, 20, 10}, 0.05).tau, -1);
  EXPECT_EQ(CompareRanks(measured, {40, 30, 20, 10}, 0.05).regret, 3);
  // One of six pairs is in the wrong order.
  const RankAgreement one = CompareRanks(measured, {20, 10, 30, 40}, 0.05);
  EXPECT_EQ(one.pairs, 6);
  EXPECT_DOUBLE_EQ(one.tau, 4.0 / 6);
  EXPECT_EQ(one.regret, 1);
}

TEST(CompareRanks, MeasuredTiesAreDroppedPredictedOnesCount) {
  // 100 and 104 are a tie, 100 and 105 are not.
  EXPECT_EQ(CompareRanks({100, 104}, {2, 1}, 0.05).pairs, 0);
  EXPECT_EQ(CompareRanks({100, 104}, {2, 1}, 0.05).tau, 0);
  EXPECT_EQ(CompareRanks({100, 105}, {2, 1}, 0.05).pairs, 1);
  // One of 3 pairs has equal predictions: (1 + 1) / sqrt(3 * 2).
  EXPECT_DOUBLE_EQ(CompareRanks({1, 2, 3}, {5, 5, 6}, 0.05).tau, 2 / std::sqrt(6.0));
  EXPECT_EQ(CompareRanks({1, 2}, {5, 5}, 0.05).tau, 0);
  EXPECT_EQ(CompareRanks({2, 1}, {5, 5}, 0.05).regret, 1);
  EXPECT_EQ(CompareRanks({}, {}, 0.05).pairs, 0);
}

}  // namespace
}  // namespace weft
