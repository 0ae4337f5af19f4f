// Tests the example of halving_doubling.cc, and the folding of members beyond a power of two.
#include <vector>

#include "gtest/gtest.h"
#include "schedules/collective/check.h"
#include "schedules/collective/plan.h"

namespace weft {
namespace {

constexpr CollectiveOp kCopy = CollectiveOp::kCopy;
constexpr CollectiveOp kReduce = CollectiveOp::kReduce;

CollectivePlan Build(int members, CollectiveKind kind = CollectiveKind::kAllReduce) {
  return *(*FindCollective("halving-doubling"))->Build(members, kind);
}

TEST(HalvingDoubling, TheDrawnExample) {
  const CollectivePlan plan = Build(4);
  ASSERT_EQ(plan.rounds.size(), 4u);
  EXPECT_EQ(plan.chunks, 4);
  using Round = std::vector<CollectiveStep>;
  EXPECT_EQ(plan.rounds[0], (Round{{1, 0, 0, kReduce},
                                   {1, 0, 2, kReduce},
                                   {0, 1, 1, kReduce},
                                   {0, 1, 3, kReduce},
                                   {3, 2, 0, kReduce},
                                   {3, 2, 2, kReduce},
                                   {2, 3, 1, kReduce},
                                   {2, 3, 3, kReduce}}));
  EXPECT_EQ(plan.rounds[1], (Round{{2, 0, 0, kReduce}, {3, 1, 1, kReduce}, {0, 2, 2, kReduce}, {1, 3, 3, kReduce}}));
  EXPECT_EQ(plan.rounds[2], (Round{{2, 0, 2, kCopy}, {3, 1, 3, kCopy}, {0, 2, 0, kCopy}, {1, 3, 1, kCopy}}));
  EXPECT_EQ(plan.rounds[3], (Round{{1, 0, 1, kCopy},
                                   {1, 0, 3, kCopy},
                                   {0, 1, 0, kCopy},
                                   {0, 1, 2, kCopy},
                                   {3, 2, 1, kCopy},
                                   {3, 2, 3, kCopy},
                                   {2, 3, 0, kCopy},
                                   {2, 3, 2, kCopy}}));
}

TEST(HalvingDoubling, OneOrderForAllElements) {
  for (const int members : {8, 11}) {
    const CollectivePlan all = Build(members);
    for (int chunk = 0; chunk < all.chunks; ++chunk) EXPECT_EQ(SumOrder(all, 3, chunk), SumOrder(all, 0, 0));
    const CollectivePlan scatter = Build(members, CollectiveKind::kReduceScatter);
    for (int member = 0; member < members; ++member) {
      EXPECT_EQ(SumOrder(scatter, member, member), SumOrder(all, 0, 0));
    }
  }
  EXPECT_EQ(SumOrder(Build(4), 2, 1), "((0+1)+(2+3))");
  EXPECT_EQ(SumOrder(Build(6), 0, 0), "(((0+1)+(2+3))+(4+5))");
}

TEST(HalvingDoubling, RoundsAndMessagesOfThePowerOfTwo) {
  for (int log = 1; log <= 7; ++log) {
    const int members = 1 << log;
    EXPECT_EQ(Build(members).rounds.size(), 2u * log);
    EXPECT_EQ(Build(members, CollectiveKind::kAllGather).rounds.size(), 1u * log);
    const CollectiveTraffic traffic = (*FindCollective("halving-doubling"))->Traffic(members);
    int64_t sent = 0;
    for (const CollectiveStage& stage : traffic.stages) sent += stage.rounds * StageMessages(stage, members);
    EXPECT_EQ(sent, int64_t{2} * (members - 1) * members);
  }
}

TEST(HalvingDoubling, OthersAreFolded) {
  const CollectivePlan plan = Build(6);
  EXPECT_EQ(plan.rounds.size(), 6u);
  EXPECT_EQ(plan.chunks, 4);
  // Members 0 and 2 send all their chunks to members 1 and 3 in the first round, and receive all results in the last.
  for (const CollectiveStep& step : plan.rounds.front()) EXPECT_EQ(step.destination, step.source + 1);
  EXPECT_EQ(plan.rounds.front().size(), 2u * 4);
  for (const CollectiveStep& step : plan.rounds.back()) EXPECT_EQ(step.destination, step.source - 1);
  EXPECT_EQ(plan.rounds.back().size(), 2u * 4);
  // In a reduce-scatter a folded member receives only its own chunk in the last round.
  const CollectivePlan scatter = Build(6, CollectiveKind::kReduceScatter);
  EXPECT_EQ(scatter.rounds.back(), (std::vector<CollectiveStep>{{1, 0, 0, kCopy}, {3, 2, 2, kCopy}}));
}

}  // namespace
}  // namespace weft
