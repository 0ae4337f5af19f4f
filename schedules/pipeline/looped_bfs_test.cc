#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

TEST(LoopedBfs, ListsAndTimesOfTheDrawing) {
  const ScheduleParams params = {.ranks = 2, .microbatches = 3, .costs = {.forward = 2, .backward = 2}};
  const PipelineSchedule schedule = *BuildSchedule(**FindSchedule("looped-bfs"), params);
  EXPECT_THAT(schedule.placement, ElementsAre(ElementsAre(0, 1, 0, 1)));
  std::string list;
  for (const Slot& slot : schedule.order[0]) {
    list +=
        (slot.kind == SlotKind::kForward ? " f" : " B") + std::to_string(slot.stage) + std::to_string(slot.microbatch);
  }
  EXPECT_EQ(list, " f00 f01 f02 f20 f21 f22 B20 B21 B22 B00 B01 B02");
  const ScheduleTiming timing = *TimeSchedule(schedule, 3, params.costs);
  ASSERT_EQ(timing.unit, 2);
  EXPECT_EQ(timing.makespan, 28);
  EXPECT_THAT(timing.start[0], ElementsAre(0, 2, 4, 6, 8, 10, 16, 18, 20, 22, 24, 26));
  EXPECT_THAT(timing.start[1], ElementsAre(2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24));
}

// Last in, first out, which is the order in the literature, takes the same time.
TEST(LoopedBfs, OrderOfBackwardsDoesNotMatter) {
  for (int p = 1; p <= 5; ++p) {
    for (int n = p; n <= 10; ++n) {
      for (int v = 1; v <= 3; ++v) {
        const ScheduleParams params = {.ranks = p, .microbatches = n, .virtual_stages = v};
        PipelineSchedule schedule = *BuildSchedule(**FindSchedule("looped-bfs"), params);
        const int64_t makespan = TimeSchedule(schedule, n, params.costs)->makespan;
        for (std::vector<Slot>& order : schedule.order) {
          for (int chunk = v; chunk < 2 * v; ++chunk) {
            std::reverse(order.begin() + chunk * n, order.begin() + (chunk + 1) * n);
          }
        }
        EXPECT_EQ(TimeSchedule(schedule, n, params.costs)->makespan, makespan) << "P=" << p << " N=" << n << " v=" << v;
      }
    }
  }
}

}  // namespace
}  // namespace weft
