#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/draw_timeline.h"
#include "schedules/pipeline/schedule.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TEST(InterleavedZb, RunsAsDrawn) {
  EXPECT_EQ(Draw("interleaved-zb", {.ranks = 2, .microbatches = 4}),
            "rank 0: f0 f1 F0 F1 .. I0 W0 f2 I1 W1 f3 i0 w0 F2 i1 w1 F3 I2 W2 I3 W3 i2 w2 i3 w3\n"
            "rank 1: .. f0 f1 F0 I0 F1 I1 W0 f2 i0 W1 f3 i1 w0 F2 I2 w1 F3 I3 W2 i2 W3 i3 w2 w3\n");
}

TEST(InterleavedZb, OneStagePerRankIsZbH1) {
  for (int n : {1, 3, 4, 7}) {
    EXPECT_EQ(Draw("interleaved-zb", {.ranks = 4, .microbatches = n, .virtual_stages = 1}),
              Draw("zb-h1", {.ranks = 4, .microbatches = n}));
  }
}

// For the numbers of microbatches that PyTorch accepts, PyTorch's groups have N / floor(N / P) microbatches.
TEST(InterleavedZb, GroupNotGivenIsPyTorchsWhereItHasOne) {
  int same = 0;
  for (int p = 1; p <= 8; ++p) {
    for (int n = 1; n <= 24; ++n) {
      const int rounds = std::max(1, n / p);
      if (n % rounds != 0) continue;
      EXPECT_EQ(Draw("interleaved-zb", {.ranks = p, .microbatches = n}),
                Draw("interleaved-zb", {.ranks = p, .microbatches = n, .group = n / rounds}))
          << "P=" << p << " N=" << n;
      ++same;
    }
  }
  EXPECT_GT(same, 80);
}

// N = 11, P = 4: groups of 6 and 5 beat groups of 5, 5 and 1.
TEST(InterleavedZb, AvoidsASmallLastGroup) {
  const ScheduleParams params = {.ranks = 4, .microbatches = 11, .virtual_stages = 3};
  ScheduleParams six = params;
  six.group = 6;
  EXPECT_EQ(Draw("interleaved-zb", params), Draw("interleaved-zb", six));
}

TEST(InterleavedZb, GroupsSmallerThanTheRanksAreRefused) {
  EXPECT_THAT(Draw("interleaved-zb", {.ranks = 4, .microbatches = 8, .group = 3}),
              HasSubstr("group = 3 for schedule 'interleaved-zb' with ranks = 4 and microbatches = 8; allowed: 4 to 8, "
                        "nearest valid: 4"));
  EXPECT_THAT(Draw("interleaved-zb", {.ranks = 4, .microbatches = 8, .group = 9}), HasSubstr("nearest valid: 8"));
  EXPECT_THAT(Draw("interleaved-zb", {.ranks = 4, .microbatches = 2, .group = 1}), HasSubstr("nearest valid: 2"));
  EXPECT_THAT(Draw("interleaved-zb", {.ranks = 4, .microbatches = 2, .group = -1}), HasSubstr("group = -1"));
  // All other groups are valid, whatever is left for the last group.
  for (int p = 1; p <= 5; ++p) {
    for (int n = 1; n <= 13; ++n) {
      for (int group = std::min(p, n); group <= n; ++group) {
        for (int v : {1, 2, 3}) {
          const ScheduleParams params = {.ranks = p, .microbatches = n, .virtual_stages = v, .group = group};
          const PipelineSchedule schedule = *BuildSchedule(**FindSchedule("interleaved-zb"), params);
          EXPECT_EQ(CheckSchedule(schedule, n), absl::OkStatus());
          EXPECT_EQ(CheckAccumulationOrder(schedule), absl::OkStatus());
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft
