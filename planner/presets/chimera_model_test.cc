#include "planner/presets/chimera_model.h"

#include <vector>

#include "gtest/gtest.h"
#include "schedules/pipeline/schedule.h"

namespace weft::planner {
namespace {

PipelineSchedule Chimera(int ranks, int microbatches) {
  const auto built = BuildSchedule(**FindSchedule("chimera"), {.ranks = ranks, .microbatches = microbatches});
  EXPECT_TRUE(built.ok()) << built.status();
  return *built;
}

ChimeraEstimate Estimated(int ranks, int microbatches, ChimeraTimes times) {
  times.sums.resize(ranks, 0);
  const auto estimate = EstimateChimera(Chimera(ranks, microbatches), microbatches, times);
  EXPECT_TRUE(estimate.ok()) << estimate.status();
  return *estimate;
}

// Figure 6 has C_f = 6 and C_b = 10 for N = D = 6. In general C_f = D and C_b = 2D - 2.
TEST(ChimeraModel, CriticalPathOfFigure6) {
  for (const int depth : {2, 4, 6, 8, 32}) {
    const ChimeraEstimate estimate = Estimated(depth, depth, {.forward = 1e-3, .backward = 2e-3});
    EXPECT_EQ(estimate.forwards, depth);
    EXPECT_EQ(estimate.backwards, 2 * depth - 2);
    EXPECT_NEAR(estimate.seconds, 1e-3 * depth + 2e-3 * (2 * depth - 2), 1e-9);
    EXPECT_EQ(estimate.unoverlapped, 0);
  }
}

// A message follows each slot.
TEST(ChimeraModel, MessagesCountForEverySlotOfThePath) {
  const ChimeraEstimate estimate = Estimated(4, 4, {.forward = 1e-3, .backward = 2e-3, .p2p = 1e-4});
  EXPECT_NEAR(estimate.seconds, 4 * 1.1e-3 + 6 * 2.1e-3, 1e-9);
}

// D = N = 4, F = 1, B = 2 (schedules/pipeline/chimera.cc). Rank 0 runs ab.cCCdDD.AA..BB: lane 1's stage 3 ends at 10,
// then the rank is idle for 1 + 2 slots until stage 0 ends at 16, which is the end of all. So 3 units of a sum of stage
// 3 are hidden, and nothing of a sum of stage 0.
TEST(ChimeraModel, FreeRegionsHideSums) {
  const ChimeraTimes times = {.forward = 1, .backward = 2};
  const auto with = [&](std::vector<double> sums) {
    ChimeraTimes summed = times;
    summed.sums = std::move(sums);
    return Estimated(4, 4, summed).unoverlapped;
  };
  EXPECT_NEAR(with({0, 0, 0, 3}), 0, 1e-9);
  EXPECT_NEAR(with({0, 0, 0, 4}), 1, 1e-9);
  EXPECT_NEAR(with({2, 0, 0, 0}), 2, 1e-9);
  EXPECT_NEAR(with({2, 0, 0, 4}), 2, 1e-9);
  EXPECT_NEAR(Estimated(4, 4, {.forward = 1, .backward = 2, .sums = {2, 0, 0, 4}}).seconds, 16 + 2, 1e-9);
}

TEST(ChimeraModel, RabenseifnerByHand) {
  const AlphaBeta link = {.alpha = 3, .beta = 0.5};
  EXPECT_DOUBLE_EQ(RabenseifnerSeconds(80, 8, link), 2 * 3 * 3 + 2 * 7 * 0.5 * 80 / 8);
  EXPECT_DOUBLE_EQ(RabenseifnerSeconds(80, 1, link), 0);
}

}  // namespace
}  // namespace weft::planner
