#include "planner/search/plan_estimate.h"

#include <array>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/schedule.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

constexpr int64_t kForward = 1'000'000, kBackward = 2'000'000, kStep = 500'000;

CollectiveTimes Always(int64_t time) {
  std::array<int64_t, CollectiveTimes::kSizes.size()> times;
  times.fill(time);
  return CollectiveTimes(times);
}

struct Estimates {
  double quick = 0;
  double by_slots = 0;
};

// The estimates of a model of `layers` equal layers with a bound of no time, in picoseconds.
Estimates EstimatesFor(const std::string& schedule_name, int ranks, int microbatches, int32_t layers,
                       const std::string& plan_text, const ExpectedNetwork& network) {
  const PipelineSchedule schedule =
      *BuildSchedule(**FindSchedule(schedule_name), {.ranks = ranks, .microbatches = microbatches});
  const ScheduleShape shape = ShapeOf(schedule, /*frees_between_halves=*/false);
  LayerCosts layer;
  layer.forward = kForward;
  layer.backward = kBackward;
  layer.step = kStep;
  layer.parameter_bytes = layer.gradient_bytes = 1'000'000;
  BlockProfile profile;
  profile.are_expected = true;
  profile.runs.push_back({{0, layers}, layer, layer, {}});
  const std::vector<int32_t> cut(schedule.stages, layers / schedule.stages);
  const Plan plan = Parse<Plan>(plan_text);
  const BoundInputs inputs{.profile = profile, .shape = shape, .layers_per_stage = cut, .plan = plan};
  const EstimateInputs estimate{.plan = inputs, .network = network};
  const absl::StatusOr<double> by_slots = EstimateBySlots(estimate, schedule, microbatches, {});
  EXPECT_TRUE(by_slots.ok()) << by_slots.status();
  return {EstimateOf(estimate, {}) * 1e12, *by_slots * 1e12};
}

TEST(PlanEstimate, Is1F1BsClosedFormAndTheStep) {
  for (const int ranks : {1, 2, 4}) {
    const Estimates estimates = EstimatesFor("1f1b", ranks, 8, ranks, "", {});
    const auto time = static_cast<double>((8 + ranks - 1) * (kForward + kBackward) + kStep);
    EXPECT_DOUBLE_EQ(estimates.quick, time) << ranks;
    EXPECT_DOUBLE_EQ(estimates.by_slots, time) << ranks;
  }
}

TEST(PlanEstimate, OnlyTheSumOfTheLastStageToEndIsExposed) {
  const char* plan = "mesh { axes { name: 'data' size: 2 } axes { name: 'pipe' size: 2 } }";
  const double without = EstimatesFor("1f1b", 2, 8, 2, plan, {}).by_slots;
  EXPECT_DOUBLE_EQ(EstimatesFor("1f1b", 2, 8, 2, plan, {.sum = Always(kForward)}).by_slots, without + kForward);
}

TEST(PlanEstimate, GathersOfZero3AreHiddenButTheFirst) {
  const char* plan = "mesh { axes { name: 'data' size: 2 } } zero { stage: 3 reshard: AFTER_BACKWARD }";
  const double without = EstimatesFor("1f1b", 1, 8, 4, plan, {}).quick;
  // Each of eight forwards waits for its first gather. A longer gather than a layer's forward is exposed in part.
  EXPECT_DOUBLE_EQ(EstimatesFor("1f1b", 1, 8, 4, plan, {.gather = Always(kForward)}).quick, without + 8 * kForward);
  EXPECT_DOUBLE_EQ(EstimatesFor("1f1b", 1, 8, 4, plan, {.gather = Always(2 * kForward)}).quick,
                   without + 8 * (2 + 3) * kForward);
}

TEST(PlanEstimate, MessagesDelayMoreThanFillAndDrain) {
  const ExpectedNetwork network{.forward_message = kForward / 10, .backward_message = kForward / 10};
  const double without = EstimatesFor("1f1b", 4, 8, 4, "", {}).quick;
  const Estimates estimates = EstimatesFor("1f1b", 4, 8, 4, "", network);
  EXPECT_DOUBLE_EQ(estimates.quick, without + 6 * kForward / 10);
  EXPECT_GT(estimates.by_slots, estimates.quick);
}

TEST(PlanEstimate, IsNeverBelowTheBound) {
  const PipelineSchedule schedule = *BuildSchedule(**FindSchedule("1f1b"), {.ranks = 1, .microbatches = 1});
  const ScheduleShape shape = ShapeOf(schedule, /*frees_between_halves=*/false);
  BlockProfile profile;
  profile.runs.push_back({{0, 1}, {}, {}, {}});
  const std::vector<int32_t> cut = {1};
  const Plan plan;
  const BoundInputs inputs{.profile = profile, .shape = shape, .layers_per_stage = cut, .plan = plan};
  EXPECT_EQ(EstimateOf({.plan = inputs, .network = {}}, {.least_seconds = 3}), 3);
}

TEST(CollectiveTimes, AreInterpolated) {
  const CollectiveTimes times({1000, 2000, 3000, 4000, 5000});
  EXPECT_EQ(times.At(0), 0);
  EXPECT_EQ(times.At(1 << 16), 2000);
  EXPECT_EQ(times.At(((1 << 16) + (1 << 21)) / 2), 2500);
  EXPECT_EQ(times.At(1 << 30), 5000);
}

}  // namespace
}  // namespace weft::planner
