#include "simulator/network/collective_call.h"

#include <map>

#include "gtest/gtest.h"

namespace weft::sim {
namespace {

// Returns the number of elements that `member` sends according to the plan.
int64_t SentByPlan(const CollectivePlan& plan, int member, int64_t elements) {
  int64_t sent = 0;
  for (const std::vector<CollectiveStep>& round : plan.rounds) {
    for (const CollectiveStep& step : round) {
      if (step.source != member) continue;
      sent += ChunkBegin(elements, plan.chunks, step.chunk + 1) - ChunkBegin(elements, plan.chunks, step.chunk);
    }
  }
  return sent;
}

TEST(CollectiveBytesSent, AreThoseOfThePlan) {
  for (const CollectiveEntry& entry : Collectives()) {
    if (entry.in_switch()) continue;
    for (const CollectiveKind kind : kCollectiveKinds) {
      for (int members = 1; members <= 8; ++members) {
        SCOPED_TRACE(testing::Message() << entry.name << " " << CollectiveKindName(kind) << " " << members);
        const CollectivePlan plan = *entry.Build(members, kind);
        const int64_t elements = 840 * plan.chunks;  // A multiple of all sizes.
        const CollectiveCall call = {
            .kind = kind, .algorithm = &entry, .parts = {{.elements = elements, .element_bytes = 2}}};
        int64_t sent = 0;
        for (int member = 0; member < members; ++member) sent += 2 * SentByPlan(plan, member, elements);
        EXPECT_EQ(CollectiveBytesSent(call, members), (sent + members - 1) / members);
      }
    }
  }
}

// A member sends everything to a switch once.
TEST(CollectiveBytesSent, ToASwitch) {
  const auto sent = [](CollectiveKind kind) {
    const CollectiveCall call = {
        .kind = kind, .algorithm = *FindCollective("switch"), .parts = {{.elements = 800, .element_bytes = 4}}};
    return CollectiveBytesSent(call, 8);
  };
  EXPECT_EQ(sent(CollectiveKind::kAllReduce), 3200);
  EXPECT_EQ(sent(CollectiveKind::kReduceScatter), 2800);
  EXPECT_EQ(sent(CollectiveKind::kAllGather), 400);
}

TEST(CollectiveBytesSent, RingsSendTheLeast) {
  const auto sent = [](CollectiveKind kind) {
    const CollectiveCall call = {
        .kind = kind, .algorithm = *FindCollective("ring"), .parts = {{.elements = 1000, .element_bytes = 4}}};
    return CollectiveBytesSent(call, 4);
  };
  EXPECT_EQ(sent(CollectiveKind::kAllReduce), 2 * 3 * 1000);
  EXPECT_EQ(sent(CollectiveKind::kAllGather), 3 * 1000);
  EXPECT_EQ(sent(CollectiveKind::kReduceScatter), 3 * 1000);
}

TEST(CollectiveBytesSent, PartsAddUpAndHugeOnesSaturate) {
  CollectiveCall call = {.kind = CollectiveKind::kReduceScatter,
                         .algorithm = *FindCollective("ring"),
                         .parts = {{.elements = 8, .element_bytes = 4},
                                   {.elements = 16, .element_bytes = 2, .one_by_one = true},
                                   {.elements = 10, .element_bytes = 1}}};
  // Three rounds have chunks of 2 x 4 + 3 bytes; then come three direct messages of 4 x 2 bytes.
  EXPECT_EQ(CollectiveBytesSent(call, 4), 3 * (8 + 3) + 3 * 8);
  const std::vector<CollectivePhase> phases = CollectivePhases(call, 4);
  ASSERT_EQ(phases.size(), 2u);
  EXPECT_EQ(phases[0].stage.rounds, 3);
  EXPECT_EQ(phases[0].stage.pattern, CollectiveStage::kNext);
  EXPECT_EQ(phases[0].bytes, 11);
  EXPECT_EQ(phases[1].stage.rounds, 1);
  EXPECT_EQ(phases[1].stage.pattern, CollectiveStage::kEveryOther);
  EXPECT_EQ(phases[1].bytes, 8);
  EXPECT_TRUE(CollectivePhases(call, 1).empty());
  call.parts = {{.elements = INT64_MAX, .element_bytes = 24}};
  EXPECT_EQ(CollectiveBytesSent(call, 1 << 20), INT64_MAX);
}

}  // namespace
}  // namespace weft::sim
