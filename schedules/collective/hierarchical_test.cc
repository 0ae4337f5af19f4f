// Tests blocks of two members, and the choice of the blocks.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "schedules/collective/check.h"
#include "schedules/collective/plan.h"

namespace weft {
namespace {

CollectivePlan Build(const std::string& name, int members, CollectiveKind kind = CollectiveKind::kAllReduce) {
  return *(*FindCollective(name))->Build(members, kind);
}

// Two blocks of two have exactly the rounds that halving_doubling_test.cc draws.
TEST(Hierarchical, TwoBlocksOfTwoAreHalvingAndDoubling) {
  const CollectivePlan plan = Build("hierarchical", 4);
  EXPECT_EQ(plan.chunks, 4);
  EXPECT_EQ(plan.rounds, Build("halving-doubling", 4).rounds);
  EXPECT_EQ(SumOrder(plan, 0, 0), "((0+1)+(2+3))");
}

TEST(Hierarchical, SumsInBlocksFirst) {
  // Chunk 1 belongs to place 1 in block 0: it is summed in ring order 2, 0, 1 inside each block, then in ring order 1,
  // 2, 0 over the blocks.
  EXPECT_EQ(SumOrder(Build("hierarchical", 9), 4, 1), "(((0+2)+1)+(((3+5)+4)+((6+8)+7)))");
}

// Returns the largest difference `destination - source` of all steps. If there are several blocks, it is the block
// size: a step to the next block goes to the member at the same place there.
int Farthest(const CollectivePlan& plan) {
  int most = 0;
  for (const auto& round : plan.rounds) {
    for (const CollectiveStep& step : round) {
      if (step.source < step.destination) most = std::max(most, step.destination - step.source);
    }
  }
  return most;
}

size_t Rounds(const std::string& name, int members) { return Build(name, members).rounds.size(); }

TEST(Hierarchical, Blocks) {
  // An all-reduce of n members in blocks of g takes 2 (g - 1) rounds inside blocks and 2 (n / g - 1) rounds between
  // blocks.
  EXPECT_EQ(Rounds("hierarchical", 64), 14u + 14);
  EXPECT_EQ(Rounds("hierarchical", 128), 14u + 30);
  EXPECT_EQ(Rounds("hierarchical", 12), 4u + 6);
  EXPECT_EQ(Rounds("hierarchical-4", 64), 6u + 30);
  EXPECT_EQ(Rounds("hierarchical-8", 64), 14u + 14);
  EXPECT_EQ(Rounds("hierarchical-8", 12), 6u + 4);
  EXPECT_EQ(Farthest(Build("hierarchical-8", 32)), 8);
  EXPECT_EQ(Farthest(Build("hierarchical-4", 32)), 4);
}

TEST(Hierarchical, ARingWhereThereIsOneBlockOrNoNeighbor) {
  for (const auto& [name, members] :
       {std::pair("hierarchical", 7), std::pair("hierarchical-4", 9), std::pair("hierarchical-8", 8)}) {
    for (const CollectiveKind kind : kCollectiveKinds) {
      EXPECT_EQ(Build(name, members, kind).rounds, Build("ring", members, kind).rounds) << name;
    }
  }
}

TEST(Hierarchical, OnlyAPartCrosses) {
  // With 32 members in blocks of 8, each member sends only 2 x 3 chunks to another block. In a ring, all 62 messages of
  // a block's last member would cross.
  const CollectivePlan plan = Build("hierarchical-8", 32);
  std::vector<int> crossing(32);
  for (const auto& round : plan.rounds) {
    for (const CollectiveStep& step : round) crossing[step.source] += step.source / 8 != step.destination / 8;
  }
  for (const int count : crossing) EXPECT_EQ(count, 6);
}

}  // namespace
}  // namespace weft
