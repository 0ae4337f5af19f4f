#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

std::string Frozen(const ScheduleParams& params, int rank) {
  const PipelineSchedule schedule = *BuildSchedule(**FindSchedule("axonn"), params);
  const PipelineSchedule frozen = *FreezeSchedule(schedule, params.microbatches, params.costs);
  std::string list;
  for (const Slot& slot : frozen.order[rank]) {
    list += (slot.kind == SlotKind::kForward ? "F" : "B") + std::to_string(slot.microbatch);
  }
  return list;
}

TEST(Axonn, OrderAndTimesOfTheDrawing) {
  const ScheduleParams params = {.ranks = 3, .microbatches = 4};
  EXPECT_EQ(Frozen(params, 0), "F0F1F2B0F3B1B2B3");
  EXPECT_EQ(Frozen(params, 1), "F0F1F2B0B1F3B2B3");
  EXPECT_EQ(Frozen(params, 2), "F0B0F1B1F2B2F3B3");
  const PipelineSchedule schedule = *BuildSchedule(**FindSchedule("axonn"), params);
  const ScheduleTiming timing = *TimeSchedule(schedule, 4, params.costs);
  EXPECT_EQ(timing.makespan, 18);
  // The start times of the rank's forwards, then of its backwards.
  EXPECT_THAT(timing.start[0], ElementsAre(0, 1, 2, 9, 7, 10, 13, 16));
  EXPECT_THAT(timing.start[1], ElementsAre(1, 2, 3, 10, 5, 8, 11, 14));
  EXPECT_THAT(timing.start[2], ElementsAre(2, 5, 8, 11, 3, 6, 9, 12));
}

// At P = 8, first come, first served costs more than 1F1B's 69 and 117. Running the backward first, or keeping twice as
// many microbatches in flight, restores these times.
TEST(Axonn, PriorityOrLimitRestoresOneFOneB) {
  for (const auto& [microbatches, arrival, restored] : {std::tuple{16, 75, 69}, {32, 124, 117}}) {
    ScheduleParams params = {.ranks = 8, .microbatches = microbatches};
    PipelineSchedule schedule = *BuildSchedule(**FindSchedule("axonn"), params);
    EXPECT_EQ(TimeSchedule(schedule, microbatches, params.costs)->makespan, arrival);
    schedule.message_driven->rule = MessageDriven::Rule::kBackwardFirst;
    EXPECT_EQ(TimeSchedule(schedule, microbatches, params.costs)->makespan, restored);
    params.limit = 16;
    EXPECT_EQ(TimeSchedule(*BuildSchedule(**FindSchedule("axonn"), params), microbatches, params.costs)->makespan,
              restored);
  }
}

TEST(Axonn, LimitIsTheMemoryOfAllRanksButTheLast) {
  const ScheduleParams params = {.ranks = 4, .microbatches = 9, .limit = 3};
  const ScheduleTiming timing = *TimeSchedule(*BuildSchedule(**FindSchedule("axonn"), params), 9, params.costs);
  std::vector<int64_t> peaks;
  for (const RankTiming& rank : timing.ranks) peaks.push_back(rank.peak_activations);
  EXPECT_THAT(peaks, ElementsAre(3, 3, 3, 1));
}

}  // namespace
}  // namespace weft
