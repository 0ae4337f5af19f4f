#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/draw_timeline.h"
#include "schedules/pipeline/schedule.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TEST(ZbV, RunsAsDrawn) {
  EXPECT_EQ(
      Draw("zb-v", {.ranks = 3, .microbatches = 5}),
      "rank 0: f0 f1 f2 f3 f4 F0 I0 W0 F1 I1 W1 F2 I2 W2 i0 w0 F3 I3 W3 i1 w1 F4 I4 W4 i2 w2 i3 w3 i4 w4 .. ..\n"
      "rank 1: .. f0 f1 f2 F0 f3 F1 I0 W0 F2 I1 W1 f4 i0 w0 F3 I2 W2 i1 w1 F4 I3 W3 i2 I4 i3 w2 i4 w3 W4 w4 ..\n"
      "rank 2: .. .. f0 F0 f1 F1 f2 F2 I0 W0 f3 i0 w0 F3 I1 W1 f4 i1 w1 F4 I2 W2 i2 I3 i3 I4 i4 w2 W3 W4 w3 w4\n");
}

TEST(ZbV, MicrobatchesThatDoNotExistAreLeftOut) {
  EXPECT_EQ(Draw("zb-v", {.ranks = 2, .microbatches = 1}),
            "rank 0: f0 .. .. F0 I0 W0 .. .. i0 w0\n"
            "rank 1: .. f0 F0 .. .. I0 W0 i0 w0 ..\n");
}

TEST(ZbV, StagesLieOnAV) {
  const PipelineSchedule schedule = *BuildSchedule(**FindSchedule("zb-v"), {.ranks = 3, .microbatches = 1});
  EXPECT_EQ(schedule.placement, (std::vector<std::vector<int>>{{0, 1, 2, 2, 1, 0}}));
}

TEST(ZbV, TakesTwoStagesPerRankOnly) {
  for (const char* name : {"zb-v", "v-half", "v-min"}) {
    EXPECT_EQ(Draw(name, {.ranks = 2, .microbatches = 3, .virtual_stages = 2}),
              Draw(name, {.ranks = 2, .microbatches = 3}));
    for (int v : {1, 3, 1024}) {
      EXPECT_THAT(Draw(name, {.ranks = 2, .microbatches = 3, .virtual_stages = v}),
                  HasSubstr("virtual_stages = " + std::to_string(v) + " for schedule '" + name +
                            "'; allowed: 2 (or not given), nearest valid: 2"));
    }
    EXPECT_THAT(Draw(name, {.ranks = 2, .microbatches = 3, .virtual_stages = -1}), HasSubstr("virtual_stages = -1"));
  }
}

}  // namespace
}  // namespace weft
