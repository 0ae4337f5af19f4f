// What blocks of two do, and which blocks are taken.
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

// Two blocks of two: the rounds that halving_doubling_test.cc draws, one for one.
TEST(Hierarchical, TwoBlocksOfTwoAreHalvingAndDoubling) {
  const CollectivePlan plan = Build("hierarchical", 4);
  EXPECT_EQ(plan.chunks, 4);
  EXPECT_EQ(plan.rounds, Build("halving-doubling", 4).rounds);
  EXPECT_EQ(SumOrder(plan, 0, 0), "((0+1)+(2+3))");
}

TEST(Hierarchical, SumsInBlocksFirst) {
  // Chunk 1 is that of place 1 in block 0: rings 2, 0, 1 inside and 1, 2, 0 over the blocks.
  EXPECT_EQ(SumOrder(Build("hierarchical", 9), 4, 1), "(((0+2)+1)+(((3+5)+4)+((6+8)+7)))");
}

// How far a message goes upwards at most: the block, where there are several.
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
  // 2 (g - 1) + 2 (n / g - 1) rounds.
  EXPECT_EQ(Rounds("hierarchical", 64), 14u + 14);
  EXPECT_EQ(Rounds("hierarchical", 128), 14u + 30);
  EXPECT_EQ(Rounds("hierarchical", 12), 4u + 6);
  EXPECT_EQ(Rounds("hierarchical-4", 64), 6u + 30);
  EXPECT_EQ(Rounds("hierarchical-8", 64), 14u + 14);
  EXPECT_EQ(Rounds("hierarchical-8", 12), 6u + 4);
  EXPECT_EQ(Farthest(Build("hierarchical-8", 32)), 8);
  EXPECT_EQ(Farthest(Build("hierarchical-4", 32)), 4);
}

TEST(Hierarchical, ARingWhereThereIsOneBlockOrNoNeighbour) {
  for (const auto& [name, members] :
       {std::pair("hierarchical", 7), std::pair("hierarchical-4", 9), std::pair("hierarchical-8", 8)}) {
    for (const CollectiveKind kind : kCollectiveKinds) {
      EXPECT_EQ(Build(name, members, kind).rounds, Build("ring", members, kind).rounds) << name;
    }
  }
}

TEST(Hierarchical, OnlyAPartCrosses) {
  // 32 members in blocks of 8: of 32 chunks from each member only 2 x 3 cross, of a ring's 62 all do somewhere.
  const CollectivePlan plan = Build("hierarchical-8", 32);
  std::vector<int> crossing(32);
  for (const auto& round : plan.rounds) {
    for (const CollectiveStep& step : round) crossing[step.source] += step.source / 8 != step.destination / 8;
  }
  for (const int count : crossing) EXPECT_EQ(count, 6);
}

}  // namespace
}  // namespace weft
