#include "compiler/segments/schedule_segments.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

PipelineSchedule Build(const char* name, ScheduleParams params) {
  const absl::StatusOr<const ScheduleEntry*> entry = FindSchedule(name);
  EXPECT_TRUE(entry.ok()) << entry.status();
  const absl::StatusOr<PipelineSchedule> schedule = (*entry)->build(params);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *schedule;
}

TEST(MicrobatchesInFlight, OneForwardOneBackwardHoldsAsManyAsStagesAreToCome) {
  EXPECT_THAT(MicrobatchesInFlight(Build("1f1b", {.ranks = 4, .microbatches = 8})), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(MicrobatchesInFlight(Build("1f1b", {.ranks = 4, .microbatches = 2})), ElementsAre(2, 2, 2, 1));
}

TEST(MicrobatchesInFlight, GpipeHoldsAll) {
  EXPECT_THAT(MicrobatchesInFlight(Build("gpipe", {.ranks = 3, .microbatches = 5})), ElementsAre(5, 5, 5));
}

// Saved values live until the end of the weight half.
TEST(MicrobatchesInFlight, HalvesCountToTheSecond) {
  PipelineSchedule schedule;
  schedule.stages = 1;
  Slot slot;
  schedule.order.emplace_back();
  for (int m = 0; m < 2; ++m) {
    for (SlotKind kind : {SlotKind::kForward, SlotKind::kBackwardInput}) {
      slot.kind = kind;
      slot.microbatch = m;
      schedule.order[0].push_back(slot);
    }
  }
  slot.kind = SlotKind::kBackwardWeight;
  schedule.order[0].push_back(slot);
  EXPECT_THAT(MicrobatchesInFlight(schedule), ElementsAre(2));
}

}  // namespace
}  // namespace weft
