#include <algorithm>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

TEST(Gems, TimesOfTheDrawing) {
  const PipelineSchedule schedule = *BuildSchedule(**FindSchedule("gems"), {.ranks = 3, .microbatches = 2});
  EXPECT_THAT(schedule.placement, ElementsAre(ElementsAre(0, 1, 2), ElementsAre(2, 1, 0)));
  const ScheduleTiming timing = *TimeSchedule(schedule, 2, {.forward = 1, .backward = 2});
  EXPECT_THAT(timing.start[0], ElementsAre(0, 7, 9, 10));
  EXPECT_THAT(timing.start[1], ElementsAre(1, 5, 7, 12));
  EXPECT_THAT(timing.start[2], ElementsAre(2, 3, 5, 14));
  EXPECT_EQ(timing.makespan, 16);
}

// At most two microbatches are between their first forward and their last backward.
TEST(Gems, TwoMicrobatchesAreLive) {
  const int n = 7;
  const PipelineSchedule schedule = *BuildSchedule(**FindSchedule("gems"), {.ranks = 4, .microbatches = n});
  const ScheduleTiming timing = *TimeSchedule(schedule, n, {.forward = 1, .backward = 2});
  std::vector<int64_t> first(n, INT64_MAX), last(n, 0);
  for (int rank = 0; rank < 4; ++rank) {
    for (size_t i = 0; i < schedule.order[rank].size(); ++i) {
      const int m = schedule.order[rank][i].microbatch;
      first[m] = std::min(first[m], timing.start[rank][i]);
      last[m] = std::max(last[m], timing.end[rank][i]);
    }
  }
  for (int m = 0; m + 1 < n; ++m) {
    EXPECT_LT(first[m + 1], last[m]);
    if (m + 2 < n) {
      EXPECT_GE(first[m + 2], last[m]);
    }
  }
}

// The share of the bubble in the makespan for large N and B = 2F: (P - 1) / (P + 1/2).
TEST(Gems, SteadyBubble) {
  for (int p = 1; p <= 8; ++p) {
    const auto makespan = [&](int n) {
      const PipelineSchedule schedule = *BuildSchedule(**FindSchedule("gems"), {.ranks = p, .microbatches = n});
      return TimeSchedule(schedule, n, {.forward = 1, .backward = 2})->makespan;
    };
    const int64_t step = makespan(11) - makespan(10);
    EXPECT_EQ((step - 3) * (2 * p + 1), 2 * (p - 1) * step) << p;
  }
}

}  // namespace
}  // namespace weft
