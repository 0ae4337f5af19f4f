#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/draw_timeline.h"
#include "schedules/pipeline/schedule.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TEST(DualPipeV, RunsAsDrawn) {
  EXPECT_EQ(Draw("dualpipev", {.ranks = 2, .microbatches = 4}),
            "rank 0: f0 f1 f2 F0 I0 W0 F1 f3+ B1 B1 .. F2+ b0 b0 B2 B2 .. F3+ b1 b1 B3 B3 i2 w2 i3 w3\n"
            "rank 1: .. f0 F0 f1 F1 f2 B0 B0 F2+ b0 b0 f3+ B1 B1 F3+ b1 b1 B2 B2 b2 b2 .. I3 i3 W3 w3\n");
}

// The order of PyTorch 2.13's ScheduleDualPipeV for these sizes.
TEST(DualPipeV, ListsArePyTorchs) {
  EXPECT_EQ(Lists(*BuildSchedule(**FindSchedule("dualpipev"), {.ranks = 4, .microbatches = 10})),
            "f0 f1 f2 f3 f4 f5 f6 F0 I0 W0 F1 I1 W1 F2 I2 W2 F3 f7+ B3 F4+ b0 f8+ B4 F5+ b1 f9+ B5 F6+ b2 B6 F7+ b3 B7 "
            "F8+ b4 B8 F9+ b5 B9 i6 w6 i7 w7 i8 w8 i9 w9\n"
            "f0 f1 f2 f3 f4 F0 f5 F1 I0 W0 F2 I1 W1 F3 f6+ B2 F4+ b0 f7+ B3 F5+ b1 f8+ B4 F6+ b2 f9+ B5 F7+ b3 B6 F8+ "
            "b4 B7 F9+ b5 B8 b6 I9 i7 W9 i8 w7 i9 w8 w9\n"
            "f0 f1 f2 F0 f3 F1 f4 F2 I0 W0 F3 f5+ B1 F4+ b0 f6+ B2 F5+ b1 f7+ B3 F6+ b2 f8+ B4 F7+ b3 f9+ B5 F8+ b4 B6 "
            "F9+ b5 B7 b6 B8 i7 I9 i8 w7 i9 W9 w8 w9\n"
            "f0 F0 f1 F1 f2 F2 f3 F3 f4 B0 F4+ b0 f5+ B1 F5+ b1 f6+ B2 F6+ b2 f7+ B3 F7+ b3 f8+ B4 F8+ b4 f9+ B5 F9+ "
            "b5 B6 b6 B7 b7 I8 i8 I9 i9 W8 w8 W9 w9\n");
}

TEST(DualPipeV, RefusesFewerMicrobatchesThanStages) {
  EXPECT_THAT(
      Draw("dualpipev", {.ranks = 4, .microbatches = 7}),
      HasSubstr("microbatches = 7 for schedule 'dualpipev' with ranks = 4; allowed: from 8 on, nearest valid: 8"));
  EXPECT_THAT(Draw("dualpipev", {.ranks = 4, .microbatches = 9, .virtual_stages = 4}),
              HasSubstr("virtual_stages = 4 for schedule 'dualpipev'; allowed: 2"));
  EXPECT_THAT(Draw("dualpipev", {.ranks = 3, .microbatches = 7}), HasSubstr("rank 2: .. .. f0"));
}

}  // namespace
}  // namespace weft
