#include "compiler/balanced_partition.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "gtest/gtest.h"

namespace weft {
namespace {

// Tries every cut in lexicographic order of counts; the first of the best wins.
void BruteForce(const std::vector<int64_t>& costs, size_t from, int stages, std::vector<int32_t>* counts,
                int64_t* best_cost, std::vector<int32_t>* best) {
  if (stages == 1) {
    counts->push_back(static_cast<int32_t>(costs.size() - from));
    int64_t cost = 0;
    size_t position = 0;
    for (int32_t count : *counts) {
      cost = std::max(cost, std::accumulate(costs.begin() + position, costs.begin() + position + count, int64_t{0}));
      position += count;
    }
    if (best->empty() || cost < *best_cost) {
      *best_cost = cost;
      *best = *counts;
    }
    counts->pop_back();
    return;
  }
  for (size_t count = 1; from + count + stages - 1 <= costs.size(); ++count) {
    counts->push_back(static_cast<int32_t>(count));
    BruteForce(costs, from + count, stages - 1, counts, best_cost, best);
    counts->pop_back();
  }
}

TEST(BalancedPartition, EqualsBruteForce) {
  constexpr unsigned kSeed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 400; ++round) {
    std::vector<int64_t> costs(1 + random() % 10);
    // Few distinct costs make ties.
    for (int64_t& cost : costs) cost = random() % 6;
    for (int stages = 1; stages <= static_cast<int>(costs.size()); ++stages) {
      std::vector<int32_t> counts, best;
      int64_t best_cost = 0;
      BruteForce(costs, 0, stages, &counts, &best_cost, &best);
      auto found = BalancedPartition(costs, stages);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(*found, best) << testing::PrintToString(costs) << " in " << stages;
    }
  }
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
}

TEST(BalancedPartition, SaysWhatIsWrong) {
  EXPECT_EQ(BalancedPartition({1, 2}, 3).status().message(),
            "cannot cut 2 layers into 3 stages of at least one layer; at most 2 stages");
  EXPECT_EQ(BalancedPartition({1, 2}, 0).status().message(), "stages = 0, must be at least 1");
  EXPECT_EQ(BalancedPartition({1, -2}, 1).status().message(), "cost of layer 1 is -2");
}

}  // namespace
}  // namespace weft
