#include <algorithm>
#include <cstdint>
#include <utility>

#include "gtest/gtest.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/draw_timeline.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

TEST(VMin, RunsAsDrawn) {
  EXPECT_EQ(Draw("v-min", {.ranks = 3, .microbatches = 3}),
            "rank 0: f0 f1 .. .. .. F0 I0 f2 W0 F1 I1 i0 W1 w0 .. F2 I2 i1 W2 w1 .. i2 w2\n"
            "rank 1: .. f0 f1 .. F0 .. F1 I0 W0 f2 i0 I1 w0 W1 F2 .. i1 I2 w1 W2 i2 w2 ..\n"
            "rank 2: .. .. f0 F0 f1 F1 .. .. I0 i0 W0 w0 f2 F2 I1 i1 W1 w1 I2 i2 W2 w2 ..\n");
}

// The authors' lists take 24 + 3 slots here. This list takes 24 + 1.
TEST(VMin, TwoRanksWasteOneSlot) {
  EXPECT_EQ(Draw("v-min", {.ranks = 2, .microbatches = 4}),
            "rank 0: f0 f1 .. F0 I0 W0 F1 i0 I1 w0 f2 i1 W1 F2 I2 w1 f3 i2 W2 F3 I3 w2 W3 i3 w3\n"
            "rank 1: .. f0 F0 f1 F1 I0 i0 W0 w0 I1 i1 f2 F2 W1 w1 I2 i2 f3 F3 W2 w2 I3 i3 W3 w3\n");
}

// For P = 2 to 16, the bubble (in slots of one stage) and the peak activations (in stages) equal those of the authors'
// lists. If P = 2 modulo 3, the bubble is two slots shorter than theirs.
TEST(VMin, BubbleAndPeaks) {
  const ScheduleEntry& entry = **FindSchedule("v-min");
  for (int p = 2; p <= 16; ++p) {
    const int64_t asked = p % 3 == 0 ? 4 * p - 7 : 4 * p - 5;
    for (int n : {1, 2, p / 2, p - 1, p, p + 1, 2 * p, 3 * p + 1}) {
      n = std::max(n, 1);
      SCOPED_TRACE(testing::Message() << "P=" << p << " N=" << n);
      const PipelineSchedule schedule = *BuildSchedule(entry, {.ranks = p, .microbatches = n});
      EXPECT_EQ(CheckAccumulationOrder(schedule), absl::OkStatus());
      const ScheduleTiming timing = *TimeSchedule(schedule, n, {});
      const int64_t bubble = n == 1 ? 4 * p - 5 : p % 3 == 2 ? asked - 2 : asked;
      EXPECT_EQ(timing.makespan, 6 * n + bubble);
      EXPECT_EQ(timing.span, timing.makespan);
      int64_t most = 0;
      for (const RankTiming& rank : timing.ranks) most = std::max(most, rank.peak_activations);
      EXPECT_LE(most, 2 * ((p + 4) / 3));
      if (n >= p) {
        EXPECT_EQ(most, 2 * ((p + 4) / 3));
      }
    }
  }
}

TEST(VMin, BubbleGrowsWithUnequalTimes) {
  const ScheduleEntry& entry = **FindSchedule("v-min");
  for (const auto& [n, bubble] : {std::pair<int, int>{8, 104}, {16, 152}, {32, 248}}) {
    const PipelineSchedule schedule = *BuildSchedule(entry, {.ranks = 4, .microbatches = n});
    const ScheduleTiming timing = *TimeSchedule(schedule, n, {.forward = 10, .backward = 20, .weight = 8});
    EXPECT_EQ(timing.makespan, 2 * (30 * n + bubble));
  }
}

}  // namespace
}  // namespace weft
