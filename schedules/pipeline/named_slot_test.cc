#include "schedules/pipeline/named_slot.h"

#include "gtest/gtest.h"

namespace weft {
namespace {

// Two ranks. Rank 1 has the forward of microbatch 0 twice, and the second lane's backward.
PipelineSchedule Lists() {
  PipelineSchedule schedule;
  schedule.stages = 2;
  schedule.lanes = 2;
  const auto slot = [](SlotKind kind, int stage, int microbatch, int lane = 0) {
    Slot made;
    made.kind = kind;
    made.lane = static_cast<int16_t>(lane);
    made.stage = stage;
    made.microbatch = microbatch;
    return made;
  };
  schedule.order = {{slot(SlotKind::kForward, 0, 0), slot(SlotKind::kForward, 0, 1), slot(SlotKind::kBackward, 0, 0)},
                    {slot(SlotKind::kForward, 1, 0), slot(SlotKind::kForward, 1, 0),
                     slot(SlotKind::kBackwardInput, 1, 12, 1), slot(SlotKind::kForward, 0, 1)}};
  return schedule;
}

void ExpectAt(const std::optional<NamedSlot>& named, int rank, int64_t index) {
  ASSERT_TRUE(named.has_value());
  EXPECT_EQ(named->rank, rank);
  EXPECT_EQ(named->index, index);
}

TEST(NamedSlotTest, TheFirstNameCounts) {
  ExpectAt(FirstNamedSlot("B s0 m0 waits for F s0 m1", Lists()), 0, 2);
  ExpectAt(FirstNamedSlot("deadlock: (F s0 m1) waits", Lists()), 0, 1);
  // A name with a lane.
  const auto lane = FirstNamedSlot("I l1 s1 m12: too late", Lists());
  ExpectAt(lane, 1, 2);
  EXPECT_EQ(lane->slot.lane, 1);
  EXPECT_EQ(lane->slot.kind, SlotKind::kBackwardInput);
}

TEST(NamedSlotTest, OfOneThatIsThereTwiceTheSecond) {
  ExpectAt(FirstNamedSlot("F s1 m0 is there twice", Lists()), 1, 1);
}

TEST(NamedSlotTest, MessagesMaySayWhichList) {
  ExpectAt(FirstNamedSlot("slot F s0 m1: is on two ranks", Lists()), 0, 1);
  ExpectAt(FirstNamedSlot("rank 1, slot F s0 m1: is on two ranks", Lists()), 1, 3);
}

TEST(NamedSlotTest, WhatIsMissingHasARankAndNoPlace) {
  const auto missing = FirstNamedSlot("F s1 m7 is missing; expected on rank 1", Lists());
  ExpectAt(missing, 1, -1);
  EXPECT_EQ(missing->slot.microbatch, 7);
  EXPECT_FALSE(FirstNamedSlot("F s1 m7 is missing; expected on rank 2", Lists()).has_value());
  EXPECT_FALSE(FirstNamedSlot("F s1 m7 is missing", Lists()).has_value());
}

TEST(NamedSlotTest, WordsAreNoNames) {
  for (const char* none :
       {"", "F", "F s0", "F s0 m", "XF s0 m0", "F l s0 m0", "F s0 m99999999999999999999", "f s0 m0"}) {
    EXPECT_FALSE(FirstNamedSlot(none, Lists()).has_value()) << none;
  }
}

}  // namespace
}  // namespace weft
