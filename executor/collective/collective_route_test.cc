#include "executor/collective/collective_route.h"

#include <set>

#include "gtest/gtest.h"

namespace weft::exec {
namespace {

// In every round of every algorithm, a member receives at most one message into a slot, and sends none from that slot.
TEST(CollectiveRouteTest, SlotsAreFreeWhenTheyAreReceivedInto) {
  for (const CollectiveEntry& entry : Collectives()) {
    if (entry.in_switch()) continue;
    for (const CollectiveKind kind : kCollectiveKinds) {
      for (int members = 1; members <= 6; ++members) {
        for (int self = 0; self < members; ++self) {
          SCOPED_TRACE(testing::Message()
                       << entry.name << " " << CollectiveKindName(kind) << " " << self << " of " << members);
          const CollectiveRoute route = *RouteOfMember(*entry.Build(members, kind), self);
          EXPECT_LE(route.slots, route.most_slots);
          int completed = 0;
          for (size_t r = 0; r < route.rounds.size(); ++r) {
            const RouteRound& round = route.rounds[r];
            // Slots that this round sends from or has already received into.
            std::set<int> busy;
            for (const RouteMessage& message : round.sends) busy.insert(message.slot);
            for (const RouteMessage& message : round.receives) {
              if (message.slot == kHome) {
                EXPECT_NE(kind, CollectiveKind::kReduceScatter);
                for (const RouteMessage& sent : round.sends) EXPECT_NE(sent.chunk, message.chunk);
                continue;
              }
              EXPECT_LT(message.slot, route.slots);
              EXPECT_TRUE(busy.insert(message.slot).second);
            }
            for (const RouteResult& result : round.results) {
              completed += result.completes;
              if (kind == CollectiveKind::kReduceScatter && !result.completes) {
                EXPECT_NE(result.result_slot, kHome);
              }
            }
          }
          if (kind == CollectiveKind::kReduceScatter && members > 1) {
            EXPECT_EQ(completed, 1);
          }
        }
      }
    }
  }
}

TEST(CollectiveRouteTest, Refusals) {
  const CollectivePlan plan = *(*FindCollective("ring"))->Build(3);
  EXPECT_FALSE(RouteOfMember(plan, 3).ok());
  EXPECT_FALSE(RouteOfMember(plan, -1).ok());
  // The plan passes the member's own range on after its sum is complete.
  CollectivePlan late = *(*FindCollective("direct"))->Build(2, CollectiveKind::kReduceScatter);
  late.rounds.push_back({{0, 1, 0, CollectiveOp::kReduce}});
  EXPECT_FALSE(RouteOfMember(late, 0).ok());
}

}  // namespace
}  // namespace weft::exec
