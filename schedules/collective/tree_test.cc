// Tests the example of tree.cc, and the advantages of two trees over one.
#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "schedules/collective/check.h"
#include "schedules/collective/plan.h"

namespace weft {
namespace {

CollectivePlan Tree(int members) { return *(*FindCollective("tree"))->Build(members); }

// The (source, destination) of each message of `chunk` in a round, ordered by destination.
std::vector<std::pair<int, int>> Sends(const CollectivePlan& plan, size_t round, int chunk) {
  std::vector<std::pair<int, int>> sends;
  for (const CollectiveStep& step : plan.rounds[round]) {
    if (step.chunk == chunk) sends.push_back({step.source, step.destination});
  }
  return sends;
}

TEST(Tree, TheDrawnExample) {
  const CollectivePlan plan = Tree(8);
  using Pairs = std::vector<std::pair<int, int>>;
  // Chunk 0 goes up and down tree 0.
  EXPECT_EQ(Sends(plan, 0, 0), (Pairs{{1, 2}, {3, 2}, {5, 6}, {7, 6}}));
  EXPECT_EQ(Sends(plan, 1, 0), (Pairs{{2, 4}, {6, 4}}));
  EXPECT_EQ(Sends(plan, 2, 0), (Pairs{{4, 0}}));
  EXPECT_EQ(Sends(plan, 3, 0), (Pairs{{0, 4}}));
  EXPECT_EQ(Sends(plan, 4, 0), (Pairs{{4, 2}, {4, 6}}));
  EXPECT_EQ(Sends(plan, 5, 0), (Pairs{{2, 1}, {2, 3}, {6, 5}, {6, 7}}));
  EXPECT_TRUE(Sends(plan, 6, 0).empty());
  // Tree 1 is the mirror image. The next chunk follows one round later.
  EXPECT_EQ(Sends(plan, 0, 1), (Pairs{{0, 1}, {2, 1}, {4, 5}, {6, 5}}));
  EXPECT_EQ(Sends(plan, 1, 2), (Pairs{{1, 2}, {3, 2}, {5, 6}, {7, 6}}));
  EXPECT_EQ(SumOrder(plan, 0, 1), "(((((0+1)+2)+3)+((4+5)+6))+7)");
  EXPECT_EQ(SumOrder(plan, 0, 0), "(0+((((1+2)+3)+4)+((5+6)+7)))");
}

TEST(Tree, HeightIsLogarithmic) {
  for (int log = 1; log <= 8; ++log) {
    EXPECT_EQ(Tree(1 << log).rounds.size(), 2u * log + 15) << log;
  }
  EXPECT_EQ(Tree(9).rounds.size(), 2u * 4 + 15);
}

// The leaves of one tree are inner members of the other, so all members send about equally much. If the number of
// members is odd, one member is an inner member of both trees.
TEST(Tree, EveryMemberIsALeafOfOneTree) {
  for (int members = 2; members <= 33; ++members) {
    const CollectivePlan plan = Tree(members);
    std::vector<bool> inner[2] = {std::vector<bool>(members), std::vector<bool>(members)};
    for (const auto& round : plan.rounds) {
      for (const CollectiveStep& step : round) {
        if (step.op == CollectiveOp::kReduce) inner[step.chunk % 2][step.destination] = true;
      }
    }
    int both = 0;
    for (int member = 0; member < members; ++member) both += inner[0][member] && inner[1][member];
    EXPECT_LE(both, members % 2) << members;
  }
}

TEST(Tree, LoadsOfTheSourcesHeader) {
  for (const int members : {2, 3, 8, 13, 64}) {
    const CollectiveTraffic traffic = (*FindCollective("tree"))->Traffic(members);
    int64_t sent = 0;
    for (const CollectiveStage& stage : traffic.stages) {
      sent += stage.rounds * StageMessages(stage, members);
      std::vector<int64_t> out(members), in(members);
      for (const CollectiveExchange& exchange : stage.exchanges) {
        out[exchange.source] += exchange.messages;
        in[exchange.destination] += exchange.messages;
      }
      EXPECT_LE(*std::max_element(out.begin(), out.end()), 4) << members;
      EXPECT_LE(*std::max_element(in.begin(), in.end()), 4) << members;
    }
    // In each tree, every member except the root sends all chunks of the tree up and receives them all from above.
    EXPECT_EQ(sent, 2 * (members - 1) * traffic.chunks);
  }
}

}  // namespace
}  // namespace weft
