#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

std::string List(const PipelineSchedule& schedule, int rank) {
  std::string list;
  for (const Slot& slot : schedule.order[rank]) {
    list += (slot.kind == SlotKind::kForward ? "F" : "B") + std::to_string(slot.microbatch);
  }
  return list;
}

TEST(Eager1F1B, ListsAndTimesOfTheDrawing) {
  const PipelineSchedule schedule = *BuildSchedule(**FindSchedule("eager-1f1b"), {.ranks = 3, .microbatches = 4});
  EXPECT_EQ(List(schedule, 0), "F0F1F2F3B0B1B2B3");
  EXPECT_EQ(List(schedule, 1), "F0F1F2B0F3B1B2B3");
  EXPECT_EQ(List(schedule, 2), "F0B0F1B1F2B2F3B3");
  const ScheduleTiming timing = *TimeSchedule(schedule, 4, {.forward = 1, .backward = 2});
  EXPECT_EQ(timing.makespan, 18);
  EXPECT_EQ(timing.start[0], (std::vector<int64_t>{0, 1, 2, 3, 7, 10, 13, 16}));
  EXPECT_EQ(timing.start[1], (std::vector<int64_t>{1, 2, 3, 5, 7, 8, 11, 14}));
  EXPECT_EQ(timing.start[2], (std::vector<int64_t>{2, 3, 5, 6, 8, 9, 11, 12}));
}

// DAPPLE's D limits what a rank holds. With D = 1 the pipeline is sequential.
TEST(Eager1F1B, Limit) {
  const ScheduleEntry& entry = **FindSchedule("eager-1f1b");
  const PipelineSchedule schedule = *BuildSchedule(entry, {.ranks = 3, .microbatches = 5, .limit = 2});
  EXPECT_EQ(List(schedule, 0), "F0F1B0F2B1F3B2F4B3B4");
  EXPECT_EQ(List(schedule, 1), "F0F1B0F2B1F3B2F4B3B4");
  EXPECT_EQ(List(schedule, 2), "F0B0F1B1F2B2F3B3F4B4");
  const PipelineSchedule one = *BuildSchedule(entry, {.ranks = 3, .microbatches = 5, .limit = 1});
  EXPECT_EQ(TimeSchedule(one, 5, {.forward = 1, .backward = 2})->makespan, 5 * 3 * 3);
}

// With an edge latency up to 1 (F=1, B=2), eager 1F1B takes as long as GPipe and holds at most twice as much as 1F1B.
TEST(Eager1F1B, HidesLatencyAsGPipeDoes) {
  for (int p = 1; p <= 6; ++p) {
    for (int n = 1; n <= 12; ++n) {
      for (int64_t c : {0, 1, 2, 4}) {
        const SlotCosts costs = {.forward = 4, .backward = 8, .weight = 4, .p2p = c};
        const PipelineSchedule schedule =
            *BuildSchedule(**FindSchedule("eager-1f1b"), {.ranks = p, .microbatches = n, .costs = costs});
        EXPECT_EQ(TimeSchedule(schedule, n, costs)->makespan, (n + p - 1) * 12 + 2 * (p - 1) * c)
            << "P=" << p << " N=" << n << " c=" << c;
      }
    }
  }
}

}  // namespace
}  // namespace weft
