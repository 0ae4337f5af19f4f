#include "gtest/gtest.h"
#include "schedules/pipeline/draw_timeline.h"

namespace weft {
namespace {

TEST(ZbH1, RunsAsDrawn) {
  EXPECT_EQ(Draw("zb-h1", {.ranks = 3, .microbatches = 4}),
            "rank 0: f0 f1 f2 .. .. i0 w0 f3 i1 w1 i2 w2 i3 w3\n"
            "rank 1: .. f0 f1 .. i0 f2 i1 w0 f3 i2 w1 i3 w2 w3\n"
            "rank 2: .. .. f0 i0 f1 i1 f2 i2 w0 f3 i3 w1 w2 w3\n");
}

TEST(ZbH1, FewerMicrobatchesThanRanksIsAllWarmUp) {
  EXPECT_EQ(Draw("zb-h1", {.ranks = 3, .microbatches = 1}),
            "rank 0: f0 .. .. .. .. i0 w0\n"
            "rank 1: .. f0 .. .. i0 w0 ..\n"
            "rank 2: .. .. f0 i0 w0 .. ..\n");
}

}  // namespace
}  // namespace weft
