// Compares the closed form with drawn interruptions, with limits that are known, and with other numbers of steps.
#include "simulator/goodput/fault_model.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "simulator/goodput/drawn_run.h"

namespace weft::sim {
namespace {

double Sum(const TimeShares& shares) {
  return shares.useful + shares.saving + shares.repeated + shares.restarting + shares.waiting;
}

TimeShares MeanOfDrawnRuns(const FaultModel& model, double interval, double seconds, int runs) {
  TimeShares mean;
  for (int run = 0; run < runs; ++run) {
    const TimeShares drawn = DrawRun(model, interval, seconds, Draw(11).At(static_cast<uint64_t>(run)));
    EXPECT_NEAR(Sum(drawn), 1, 1e-9);
    mean.useful += drawn.useful / runs;
    mean.saving += drawn.saving / runs;
    mean.repeated += drawn.repeated / runs;
    mean.restarting += drawn.restarting / runs;
    mean.waiting += drawn.waiting / runs;
  }
  return mean;
}

// Models from calm to hopeless, with and without background writes and spare nodes. All times in seconds.
std::vector<FaultModel> Models() {
  std::vector<FaultModel> models;
  for (const double between : {2000.0, 11000.0, 400000.0}) {
    for (const double restart : {0.0, 300.0, 1500.0}) {
      models.push_back({.seconds_between_failures = between, .restart_seconds = restart, .stop_seconds = 40});
      models.push_back(
          {.seconds_between_failures = between, .restart_seconds = restart, .stop_seconds = 3, .write_seconds = 200});
      models.push_back({.seconds_between_failures = between,
                        .restart_seconds = restart,
                        .stop_seconds = 40,
                        .spare_nodes = 2,
                        .repair_seconds = 20000});
    }
  }
  return models;
}

TEST(SharesOfTime, AgreeWithDrawnInterruptions) {
  for (const FaultModel& model : Models()) {
    for (const double interval : {250.0, 1200.0}) {
      SCOPED_TRACE(testing::Message() << model.seconds_between_failures << " " << model.restart_seconds << " "
                                      << model.write_seconds << " " << model.spare_nodes << " " << interval);
      const TimeShares formula = SharesOfTime(model, interval);
      EXPECT_NEAR(Sum(formula), 1, 1e-9);
      // 40 runs of 5000 interruptions each.
      const TimeShares drawn = MeanOfDrawnRuns(model, interval, 5000 * model.seconds_between_failures, 40);
      EXPECT_NEAR(drawn.useful, formula.useful, 0.003);
      EXPECT_NEAR(drawn.saving, formula.saving, 0.001);
      EXPECT_NEAR(drawn.repeated, formula.repeated, 0.003);
      EXPECT_NEAR(drawn.restarting, formula.restarting, 0.003);
      EXPECT_NEAR(drawn.waiting, formula.waiting, 0.005);
    }
  }
}

TEST(SharesOfTime, OneServerWithoutSparesWaitsForEveryRepair) {
  // Runs 1000 s on average, then waits 500 s: a third of the time.
  const FaultModel model = {.seconds_between_failures = 1000, .spare_nodes = 0, .repair_seconds = 500};
  EXPECT_NEAR(SharesOfTime(model, 1).waiting, 1.0 / 3, 1e-12);
}

TEST(SharesOfTime, AJobThatNeverSavesHasNoUsefulTime) {
  const FaultModel model = {.seconds_between_failures = 1, .restart_seconds = 1e6, .stop_seconds = 10};
  const TimeShares shares = SharesOfTime(model, 1e4);
  EXPECT_EQ(shares.useful, 0);
  EXPECT_NEAR(Sum(shares), 1, 1e-9);
}

TEST(BestStepsBetweenCheckpoints, NoOtherNumberIsBetter) {
  for (FaultModel model : Models()) {
    for (const double step : {0.3, 7.0, 90.0, 3000.0}) {
      const int64_t best = BestStepsBetweenCheckpoints(model, step);
      ASSERT_GE(best, 1);
      const double useful = SharesOfTime(model, static_cast<double>(best) * step).useful;
      const double least = (model.write_seconds - model.stop_seconds) / step;
      for (int64_t other = 1; other < 3 * best + 10; ++other) {
        if (static_cast<double>(other) < least) continue;
        EXPECT_LE(SharesOfTime(model, static_cast<double>(other) * step).useful, useful) << best << " " << other;
      }
    }
  }
}

// Young's first-order optimum, sqrt(2 C M), is the limit for cheap checkpoints (Young, CACM 17(9), 1974).
TEST(BestStepsBetweenCheckpoints, IsYoungsForCheapCheckpoints) {
  for (const double stop : {1e-6, 1e-3, 1.0}) {
    const FaultModel model = {.seconds_between_failures = 1e6, .stop_seconds = stop};
    const double young = std::sqrt(2 * stop * 1e6);
    const double best = static_cast<double>(BestStepsBetweenCheckpoints(model, young / 1000)) * young / 1000;
    EXPECT_NEAR(best / young, 1, 0.002) << stop;
  }
}

}  // namespace
}  // namespace weft::sim
