#include "gtest/gtest.h"
#include "schedules/pipeline/draw_timeline.h"

namespace weft {
namespace {

TEST(ZbH2, RunsAsDrawn) {
  EXPECT_EQ(Draw("zb-h2", {.ranks = 3, .microbatches = 6}),
            "rank 0: f0 f1 f2 f3 f4 i0 w0 f5 i1 w1 i2 w2 i3 w3 i4 w4 i5 w5 .. ..\n"
            "rank 1: .. f0 f1 f2 i0 f3 i1 f4 i2 w0 f5 i3 w1 i4 w2 i5 w3 w4 w5 ..\n"
            "rank 2: .. .. f0 i0 f1 i1 f2 i2 f3 i3 f4 i4 w0 f5 i5 w1 w2 w3 w4 w5\n");
}

TEST(ZbH2, WarmUpIsCutShortWithFewMicrobatches) {
  EXPECT_EQ(Draw("zb-h2", {.ranks = 2, .microbatches = 2}),
            "rank 0: f0 f1 .. i0 w0 i1 w1\n"
            "rank 1: .. f0 i0 f1 i1 w0 w1\n");
}

}  // namespace
}  // namespace weft
