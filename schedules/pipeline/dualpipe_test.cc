#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/draw_timeline.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TEST(DualPipe, RunsAsDrawn) {
  EXPECT_EQ(Draw("dualpipe", {.ranks = 4, .microbatches = 8}),
            "rank 0: f0 f1 f2 F4 I4 W4 F5 f3+ B5 B5 .. F6+ b0 b0 B6 B6 .. F7+ b1 b1 B7 B7 i2 w2 i3 w3\n"
            "rank 1: .. f0 F4 f1 F5 f2 B4 B4 F6+ b0 b0 f3+ B5 B5 F7+ b1 b1 B6 B6 b2 b2 .. I7 i3 W7 w3\n"
            "rank 2: .. F4 f0 F5 f1 F6 b0 b0 f2+ B4 B4 F7+ b1 b1 f3+ B5 B5 b2 b2 B6 B6 .. i3 I7 w3 W7\n"
            "rank 3: F4 F5 F6 f0 i0 w0 f1 F7+ b1 b1 .. f2+ B4 B4 b2 b2 .. f3+ B5 B5 b3 b3 I6 W6 I7 W7\n");
}

// The formula is the idle time of the middle ranks. Ranks at the ends overlap fewer pairs.
TEST(DualPipe, MiddleRanksAreIdleLongest) {
  const PipelineSchedule schedule = *BuildSchedule(**FindSchedule("dualpipe"), {.ranks = 8, .microbatches = 20});
  EXPECT_EQ(schedule.placement, (std::vector<std::vector<int>>{{0, 1, 2, 3, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1, 0}}));
  const ScheduleTiming timing = *TimeSchedule(schedule, 20, {.forward = 1, .backward = 2, .weight = 1, .pair = 2});
  EXPECT_EQ(timing.makespan, 52);
  std::vector<int64_t> busy;
  for (const RankTiming& rank : timing.ranks) busy.push_back(rank.busy);
  EXPECT_EQ(busy, (std::vector<int64_t>{51, 50, 49, 49, 49, 49, 50, 51}));
}

// The formula is not always exact even if a pair costs F + B: it gives 32 + 4 here with I = 2, and only 24 + 1 with I =
// 1, W = 2.
TEST(DualPipe, FormulaNeedsForwardsAsLongAsInputGradients) {
  EXPECT_EQ(
      Draw("dualpipe", {.ranks = 4, .microbatches = 8, .costs = {.forward = 1, .backward = 3, .weight = 1}}),
      "rank 0: f0 f1 f2 F4 I4 I4 W4 F5 f3+ B5 B5 B5 .. F6+ b0 b0 b0 B6 B6 B6 .. F7+ b1 b1 b1 B7 B7 B7 i2 i2 w2 .. "
      "i3 i3 w3\n"
      "rank 1: .. f0 F4 f1 F5 f2 B4 B4 B4 F6+ b0 b0 b0 f3+ B5 B5 B5 F7+ b1 b1 b1 B6 B6 B6 b2 b2 b2 .. I7 I7 i3 i3 "
      "W7 w3 ..\n"
      "rank 2: .. F4 f0 F5 f1 F6 b0 b0 b0 f2+ B4 B4 B4 F7+ b1 b1 b1 f3+ B5 B5 B5 b2 b2 b2 B6 B6 B6 .. i3 i3 I7 I7 "
      "w3 W7 ..\n"
      "rank 3: F4 F5 F6 f0 i0 i0 w0 f1 F7+ b1 b1 b1 .. f2+ B4 B4 B4 b2 b2 b2 .. f3+ B5 B5 B5 b3 b3 b3 I6 I6 W6 .. "
      "I7 I7 W7\n");
  const PipelineSchedule schedule = *BuildSchedule(**FindSchedule("dualpipe"), {.ranks = 4, .microbatches = 8});
  EXPECT_EQ(TimeSchedule(schedule, 8, {.forward = 1, .backward = 3, .weight = 1})->makespan, 35);
  EXPECT_EQ(TimeSchedule(schedule, 8, {.forward = 1, .backward = 3, .weight = 2})->makespan, 34);
}

TEST(DualPipe, RefusesOddAndTooFew) {
  EXPECT_THAT(Draw("dualpipe", {.ranks = 3, .microbatches = 8}),
              HasSubstr("ranks = 3 for schedule 'dualpipe'; allowed: even numbers, nearest valid: 4"));
  EXPECT_THAT(Draw("dualpipe", {.ranks = 4, .microbatches = 9}),
              HasSubstr("microbatches = 9 for schedule 'dualpipe' with ranks = 4; allowed: even numbers from 8 on, "
                        "nearest valid: 10"));
  EXPECT_THAT(Draw("dualpipe", {.ranks = 4, .microbatches = 6}), HasSubstr("nearest valid: 8"));
  EXPECT_THAT(Draw("dualpipe", {.ranks = 2, .microbatches = 3}), HasSubstr("nearest valid: 4"));
  EXPECT_THAT(Draw("dualpipe", {.ranks = 2, .microbatches = 4}), HasSubstr("rank 0: f0"));
}

}  // namespace
}  // namespace weft
