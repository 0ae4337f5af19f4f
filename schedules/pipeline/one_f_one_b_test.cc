#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

std::string List(const PipelineSchedule& schedule, int rank) {
  std::string list;
  for (const Slot& slot : schedule.order[rank]) {
    list += SlotName(schedule, slot).substr(0, 1) + std::to_string(slot.microbatch);
  }
  return list;
}

TEST(OneFOneB, ListsAndTimesOfTheDrawing) {
  const PipelineSchedule schedule = *(*FindSchedule("1f1b"))->build({.ranks = 3, .microbatches = 4});
  EXPECT_EQ(List(schedule, 0), "F0F1F2B0F3B1B2B3");
  EXPECT_EQ(List(schedule, 1), "F0F1B0F2B1F3B2B3");
  EXPECT_EQ(List(schedule, 2), "F0B0F1B1F2B2F3B3");
  const ScheduleTiming timing = *TimeSchedule(schedule, 4, {.forward = 1, .backward = 2});
  EXPECT_EQ(timing.makespan, 18);
  EXPECT_EQ(timing.start[0], (std::vector<int64_t>{0, 1, 2, 7, 9, 10, 13, 16}));
  EXPECT_EQ(timing.start[1], (std::vector<int64_t>{1, 2, 5, 7, 8, 10, 11, 14}));
  EXPECT_EQ(timing.start[2], (std::vector<int64_t>{2, 3, 5, 6, 8, 9, 11, 12}));
}

TEST(OneFOneB, FewerMicrobatchesThanRanksIsAllWarmUp) {
  const PipelineSchedule schedule = *(*FindSchedule("1f1b"))->build({.ranks = 4, .microbatches = 2});
  EXPECT_EQ(List(schedule, 0), "F0F1B0B1");
  EXPECT_EQ(List(schedule, 1), "F0F1B0B1");
  EXPECT_EQ(List(schedule, 2), "F0F1B0B1");
  EXPECT_EQ(List(schedule, 3), "F0B0F1B1");
}

}  // namespace
}  // namespace weft
