#include <algorithm>
#include <cstdint>

#include "gtest/gtest.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/draw_timeline.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

TEST(VHalf, RunsAsDrawn) {
  EXPECT_EQ(Draw("v-half", {.ranks = 4, .microbatches = 4}),
            "rank 0: f0 f1 f2 f3 .. .. .. F0 I0 F1 I1 W0 W1 .. F2 I2 i0 W2 w0 F3 I3 i1 W3 i2 w1 w2 .. i3 w3\n"
            "rank 1: .. f0 f1 f2 f3 .. F0 .. F1 I0 W0 I1 W1 F2 .. i0 I2 w0 F3 W2 i1 I3 i2 w1 W3 w2 i3 w3 ..\n"
            "rank 2: .. .. f0 f1 f2 F0 f3 F1 .. .. I0 W0 F2 I1 i0 W1 w0 F3 I2 i1 W2 i2 I3 w1 w2 i3 W3 w3 ..\n"
            "rank 3: .. .. .. f0 F0 f1 F1 f2 F2 .. .. I0 W0 i0 w0 f3 F3 I1 i1 I2 i2 W1 w1 I3 i3 W2 w2 W3 w3\n");
}

// For P = 2 to 16, the bubble (in slots of one stage) and the peak activations (in stages) equal those of the authors'
// lists.
TEST(VHalf, BubbleAndPeaks) {
  const ScheduleEntry& entry = **FindSchedule("v-half");
  for (int p = 2; p <= 16; ++p) {
    const int64_t bubble = p == 2 ? 1 : p % 2 == 0 ? 3 * p - 7 : 3 * p - 4;
    for (int n : {1, 2, p / 2, p - 1, p, p + 1, 2 * p, 3 * p + 1}) {
      SCOPED_TRACE(testing::Message() << "P=" << p << " N=" << n);
      const PipelineSchedule schedule = *BuildSchedule(entry, {.ranks = p, .microbatches = std::max(n, 1)});
      EXPECT_EQ(CheckAccumulationOrder(schedule), absl::OkStatus());
      const ScheduleTiming timing = *TimeSchedule(schedule, std::max(n, 1), {});
      if (n >= p) {
        EXPECT_EQ(timing.makespan, 6 * n + bubble);
        EXPECT_EQ(timing.span, p == 2 && n > 2 ? 6 * n : timing.makespan);
      }
      for (const RankTiming& rank : timing.ranks) {
        if (n >= p) {
          EXPECT_EQ(rank.peak_activations, 2 * ((p + 2) / 2));
        }
        EXPECT_LE(rank.peak_activations, 2 * ((p + 2) / 2));
      }
    }
  }
}

// With unequal times, V-Min's bubble grows with N. V-Half's bubble does not, because its blocks leave slack between the
// slots of a microbatch.
TEST(VHalf, BubbleDoesNotGrowWithUnequalTimes) {
  const ScheduleEntry& entry = **FindSchedule("v-half");
  for (int n : {16, 64, 256}) {
    const PipelineSchedule schedule = *BuildSchedule(entry, {.ranks = 4, .microbatches = n});
    const ScheduleTiming timing = *TimeSchedule(schedule, n, {.forward = 10, .backward = 20, .weight = 8});
    // Times are in twentieths of a rank's forward.
    EXPECT_EQ(timing.makespan, 2 * (30 * n + 39));
  }
}

}  // namespace
}  // namespace weft
