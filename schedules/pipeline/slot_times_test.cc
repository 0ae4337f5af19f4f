#include "schedules/pipeline/slot_times.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/params.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Slot Make(SlotKind kind, int stage, int microbatch) {
  Slot slot;
  slot.kind = kind;
  slot.stage = stage;
  slot.microbatch = microbatch;
  return slot;
}

// Stages 0 and 1 on ranks 0 and 1, one microbatch. The backward of rank 1 is in halves.
PipelineSchedule TwoRanks() {
  PipelineSchedule schedule;
  schedule.stages = 2;
  schedule.placement = {{0, 1}};
  schedule.order = {
      {Make(SlotKind::kForward, 0, 0), Make(SlotKind::kBackward, 0, 0)},
      {Make(SlotKind::kForward, 1, 0), Make(SlotKind::kBackwardInput, 1, 0), Make(SlotKind::kBackwardWeight, 1, 0)}};
  return schedule;
}

TEST(UnitCostsTest, ASlotIsItsStagesPartOfARank) {
  PipelineSchedule schedule = TwoRanks();
  const SlotCosts costs = {.forward = 3, .backward = 7, .weight = 2, .pair = 0, .p2p = 5};
  auto units = MakeUnitCosts(schedule, 1, costs);
  ASSERT_TRUE(units.ok()) << units.status();
  EXPECT_EQ(units->unit, 1);
  EXPECT_EQ(units->forward, 3);
  EXPECT_EQ(units->pair, 10);
  EXPECT_EQ(units->p2p, 5);
  // With three stages on two ranks, a slot is two thirds of a rank's work, so times are counted in thirds.
  schedule.stages = 3;
  units = MakeUnitCosts(schedule, 1, costs);
  ASSERT_TRUE(units.ok()) << units.status();
  EXPECT_EQ(units->unit, 3);
  EXPECT_EQ(units->forward, 6);
  EXPECT_EQ(units->backward, 14);
  EXPECT_EQ(units->weight, 4);
  EXPECT_EQ(units->p2p, 15);
  EXPECT_EQ(units->activations, 2);
}

TEST(UnitCostsTest, TimesEveryKindOfSlot) {
  const UnitCosts units = {.forward = 3, .backward = 7, .weight = 2};
  Slot wide = Make(SlotKind::kForward, 0, 0);
  wide.width = 2;
  EXPECT_EQ(units.TimeOf(wide), 6);
  EXPECT_EQ(units.TimeOf(Make(SlotKind::kBackward, 0, 0)), 7);
  EXPECT_EQ(units.TimeOf(Make(SlotKind::kBackwardInput, 0, 0)), 5);
  EXPECT_EQ(units.TimeOf(Make(SlotKind::kBackwardWeight, 0, 0)), 2);
}

TEST(UnitCostsTest, CostsOutOfRangeAreRefusedByName) {
  const auto refusal = [](const SlotCosts& costs, int microbatches = 1) {
    return std::string(MakeUnitCosts(TwoRanks(), microbatches, costs).status().message());
  };
  EXPECT_THAT(refusal({.forward = -1}), HasSubstr("forward = -1; allowed: 0 to "));
  EXPECT_THAT(refusal({.backward = 2, .weight = 3}), HasSubstr("weight = 3; allowed: 0 to 2"));
  EXPECT_THAT(refusal({.pair = 2 * kMaxSlotCost + 1}), HasSubstr("pair = "));
  EXPECT_EQ(refusal({.forward = kMaxSlotCost}), "");
  EXPECT_THAT(refusal({.forward = kMaxSlotCost}, 1 << 30), HasSubstr("too large for 2 ranks and 2 stages"));
}

// One slot that ran: its rank and its times.
struct Ran {
  int rank = 0;
  SlotRun run;
};

std::vector<Ran> Times(const PipelineSchedule& schedule, const UnitCosts& costs) {
  std::vector<Ran> all;
  ListTimer(schedule, 1, costs).Run(schedule.order, 0, [&](int rank, int64_t, int, const SlotRun& run) {
    all.push_back({rank, run});
  });
  return all;
}

TEST(ListTimerTest, SlotsWaitForTheirRankAndTheirData) {
  const UnitCosts costs = {.forward = 3, .backward = 7, .weight = 2, .pair = 10, .p2p = 5};
  const PipelineSchedule schedule = TwoRanks();
  std::vector<int64_t> starts[2], ends[2], computed[2];
  for (const Ran& ran : Times(schedule, costs)) {
    starts[ran.rank].push_back(ran.run.start);
    ends[ran.rank].push_back(ran.run.end);
    computed[ran.rank].push_back(ran.run.computed);
  }
  // F on rank 0 ends at 3, and its result is on rank 1 at 8. There F ends at 11, I at 16, W at 18. B on rank 0 starts
  // at 21.
  EXPECT_THAT(starts[0], ElementsAre(0, 21));
  EXPECT_THAT(ends[0], ElementsAre(3, 28));
  EXPECT_THAT(starts[1], ElementsAre(8, 11, 16));
  EXPECT_THAT(ends[1], ElementsAre(11, 16, 18));
  // The times when the inputs were computed, but not yet received.
  EXPECT_THAT(computed[0], ElementsAre(0, 16));
  EXPECT_EQ(computed[1][0], 3);
}

TEST(ListTimerTest, NothingIsSentOnOneRank) {
  PipelineSchedule schedule = TwoRanks();
  schedule.placement = {{0, 0}};
  schedule.order = {{Make(SlotKind::kForward, 0, 0), Make(SlotKind::kForward, 1, 0), Make(SlotKind::kBackward, 1, 0),
                     Make(SlotKind::kBackward, 0, 0)}};
  std::vector<int64_t> ends;
  for (const Ran& ran : Times(schedule, {.forward = 3, .backward = 7, .weight = 2, .pair = 10, .p2p = 5})) {
    ends.push_back(ran.run.end);
  }
  EXPECT_THAT(ends, ElementsAre(3, 6, 13, 20));
}

}  // namespace
}  // namespace weft
