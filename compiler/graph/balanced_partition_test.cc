#include "compiler/graph/balanced_partition.h"

#include <algorithm>
#include <functional>
#include <random>

#include "gtest/gtest.h"

namespace weft {
namespace {

// Costs of the stages of a cut, descending, as the header describes them.
std::vector<int64_t> SortedCosts(const std::vector<int64_t>& costs, const RecomputeCosts& recompute,
                                 const std::vector<int32_t>& counts) {
  std::vector<int64_t> stages;
  size_t layer = 0;
  for (int32_t count : counts) {
    int64_t cost = 0;
    int position = 0;
    for (const size_t end = layer + count; layer < end; ++layer) {
      cost += costs[layer];
      if (recompute.layers.empty() || recompute.layers[layer] < 0) continue;
      if (position++ % recompute.every == 0) cost += recompute.layers[layer];
    }
    stages.push_back(cost);
  }
  std::sort(stages.begin(), stages.end(), std::greater<>());
  return stages;
}

// Tries every cut in lexicographic order of counts. If several cuts are equally good, the first one wins.
void BruteForce(const std::vector<int64_t>& costs, const RecomputeCosts& recompute, size_t from, int stages,
                std::vector<int32_t>* counts, std::vector<int32_t>* best) {
  if (stages == 1) {
    counts->push_back(static_cast<int32_t>(costs.size() - from));
    if (best->empty() || SortedCosts(costs, recompute, *counts) < SortedCosts(costs, recompute, *best)) *best = *counts;
    counts->pop_back();
    return;
  }
  for (size_t count = 1; from + count + stages - 1 <= costs.size(); ++count) {
    counts->push_back(static_cast<int32_t>(count));
    BruteForce(costs, recompute, from + count, stages - 1, counts, best);
    counts->pop_back();
  }
}

TEST(BalancedPartition, EqualsBruteForce) {
  constexpr unsigned kSeed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> costs(1 + random() % 9);
    // Few distinct costs make ties.
    for (int64_t& cost : costs) cost = random() % 6;
    RecomputeCosts recompute;
    if (round % 3 > 0) {
      for (size_t i = 0; i < costs.size(); ++i) recompute.layers.push_back(static_cast<int64_t>(random() % 5) - 1);
      recompute.every = 1 + random() % 4;
    }
    for (int stages = 1; stages <= static_cast<int>(costs.size()); ++stages) {
      std::vector<int32_t> counts, best;
      BruteForce(costs, recompute, 0, stages, &counts, &best);
      auto found = BalancedPartition(costs, stages, recompute);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(*found, best) << testing::PrintToString(costs) << " and " << testing::PrintToString(recompute.layers)
                              << " every " << recompute.every << " in " << stages;
    }
  }
}

TEST(BalancedPartition, OtherStagesAreAsCheapAsTheyCanBe) {
  // The stage with the layer of cost 10 decides the maximum. The other layers are cut in the middle.
  EXPECT_EQ(*BalancedPartition({1, 1, 1, 1, 1, 1, 10}, 3), (std::vector<int32_t>{3, 3, 1}));
}

TEST(BalancedPartition, ManyLayersAreCutQuickly) {
  const std::vector<int64_t> costs(5000, 3);
  auto found = BalancedPartition(costs, 500, {std::vector<int64_t>(5000, 2), 2});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, std::vector<int32_t>(500, 10));
}

TEST(BalancedPartition, EqualLayersGoToTheEnd) {
  auto found = BalancedPartition(std::vector<int64_t>(6, 5), 4);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, (std::vector<int32_t>{1, 1, 2, 2}));
}

TEST(BalancedPartition, HugeCostsSaturate) {
  auto found = BalancedPartition(std::vector<int64_t>(4, int64_t{1} << 62), 2);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->size(), 2);
  EXPECT_TRUE(BalancedPartition({INT64_MAX, INT64_MAX}, 2).ok());
  EXPECT_TRUE(BalancedPartition({INT64_MAX, INT64_MAX}, 1, {{INT64_MAX, INT64_MAX}, INT32_MAX}).ok());
}

TEST(BalancedPartition, SaysWhatIsWrong) {
  EXPECT_EQ(BalancedPartition({1, 2}, 3).status().message(),
            "cannot cut 2 layers into 3 stages of at least one layer; at most 2 stages");
  EXPECT_EQ(BalancedPartition({1, 2}, 0).status().message(), "stages = 0; it must be at least 1");
  EXPECT_EQ(BalancedPartition({1, -2}, 1).status().message(), "cost of layer 1 is -2");
  EXPECT_EQ(BalancedPartition({1, 2}, 1, {{1}, 1}).status().message(),
            "1 costs of recompute are given for 2 layers; allowed: one per layer");
}

}  // namespace
}  // namespace weft
