#include "planner/search/plan_bound.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/schedule.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

constexpr int64_t kForward = 1'000'000, kBackward = 2'000'000, kGiB = int64_t{1} << 30;

// Returns the profile of a model of `layers` equal layers, and nothing else.
BlockProfile Layers(int32_t layers) {
  const LayerCosts layer = {.forward = kForward,
                            .backward = kBackward,
                            .backward_input = kForward,
                            .backward_weight = kForward,
                            .saved_bytes = kGiB,
                            .half_saved_bytes = kGiB,
                            .saved_gradient_bytes = kGiB / 2,
                            .workspace_bytes = kGiB / 4,
                            .half_workspace_bytes = kGiB / 4,
                            .parameter_bytes = 2 * kGiB,
                            .gradient_bytes = 4 * kGiB,
                            .optimizer_bytes = 12 * kGiB};
  BlockProfile profile;
  profile.runs.push_back({{0, layers}, layer, layer, {}});
  return profile;
}

PipelineSchedule Build(const std::string& name, int ranks, int microbatches, int virtual_stages = 0) {
  ScheduleParams params{.ranks = ranks, .microbatches = microbatches};
  params.virtual_stages = virtual_stages;
  return *BuildSchedule(**FindSchedule(name), params);
}

struct Bounded {
  PlanBound bound;
  double tight_seconds = 0;
};

Bounded BoundFor(const std::string& schedule_name, int ranks, int microbatches, int virtual_stages = 0,
                 const std::string& plan_text = "", int64_t message = 0, int64_t capacity = 1000 * kGiB) {
  const PipelineSchedule schedule = Build(schedule_name, ranks, microbatches, virtual_stages);
  const ScheduleShape shape = ShapeOf(schedule, /*frees_between_halves=*/false);
  const BlockProfile profile = Layers(schedule.stages);
  // With all layers recomputed a layer keeps nothing, and a backward takes a forward more.
  BlockProfile recomputed = profile;
  for (LayerCosts* costs : {&recomputed.runs[0].first, &recomputed.runs[0].further}) {
    costs->saved_bytes = costs->half_saved_bytes = 0;
    costs->backward += kForward;
  }
  const std::vector<int32_t> cut(schedule.stages, 1);
  const Plan plan = Parse<Plan>(plan_text);
  BoundInputs inputs{.profile = profile,
                     .recomputed = plan.recompute().mode() == Recompute::FIT ? &recomputed : nullptr,
                     .shape = shape,
                     .layers_per_stage = cut,
                     .plan = plan,
                     .network = {.forward_message = message, .backward_message = message},
                     .capacity = capacity};
  Bounded bounded{BoundOf(inputs)};
  PlanBound tight = bounded.bound;
  EXPECT_TRUE(TightenBound(inputs, schedule, microbatches, &tight).ok());
  bounded.tight_seconds = tight.least_seconds;
  return bounded;
}

TEST(PlanBound, Is1F1BsClosedForm) {
  for (const int ranks : {1, 2, 4, 8}) {
    for (const int microbatches : {1, 4, 16}) {
      const double seconds = (microbatches + ranks - 1) * (kForward + kBackward) * 1e-12;
      const Bounded bounded = BoundFor("1f1b", ranks, microbatches);
      EXPECT_DOUBLE_EQ(bounded.bound.least_seconds, seconds) << ranks << " " << microbatches;
      EXPECT_DOUBLE_EQ(bounded.tight_seconds, seconds) << ranks << " " << microbatches;
    }
  }
}

TEST(PlanBound, IsInterleavedsClosedForm) {
  // Fill and drain cross P - 1 stages. A stage is half of a rank's work on a microbatch.
  const double seconds = (2 * 16 + 3) * (kForward + kBackward) * 1e-12;
  EXPECT_DOUBLE_EQ(BoundFor("interleaved", 4, 16, 2).bound.least_seconds, seconds);
  EXPECT_DOUBLE_EQ(BoundFor("interleaved", 4, 16, 2).tight_seconds, seconds);
}

TEST(PlanBound, MessagesDelayFillAndDrain) {
  const double without = BoundFor("1f1b", 4, 8).bound.least_seconds;
  EXPECT_DOUBLE_EQ(BoundFor("1f1b", 4, 8, 0, "", 1000).bound.least_seconds, without + 6 * 1000e-12);
  EXPECT_GE(BoundFor("1f1b", 4, 8, 0, "", 1000).tight_seconds, without + 6 * 1000e-12);
}

TEST(PlanBound, TightBoundsAreNeverLower) {
  for (const ScheduleEntry& entry : Schedules()) {
    const absl::StatusOr<PipelineSchedule> schedule = BuildSchedule(entry, {.ranks = 4, .microbatches = 8});
    if (!schedule.ok() || schedule->message_driven || schedule->asynchrony) continue;
    const Bounded bounded = BoundFor(std::string(entry.name), 4, 8);
    EXPECT_GE(bounded.tight_seconds, bounded.bound.least_seconds) << entry.name;
    // Each of four ranks runs its share of all stages for eight microbatches.
    EXPECT_GE(bounded.bound.least_seconds, 8 * schedule->stages / 4 * (kForward + kBackward) * 1e-12 * 0.999)
        << entry.name;
  }
}

TEST(PlanBound, MemoryIsStatesAndActivationsInFlight) {
  // The first rank of 1F1B holds four microbatches. States: 2 + 4 + 12 GiB.
  EXPECT_EQ(BoundFor("1f1b", 4, 8).bound.least_bytes, 18 * kGiB + 4 * kGiB + kGiB / 4);
  EXPECT_EQ(BoundFor("1f1b", 4, 8, 0, "mesh { axes { name: 'data' size: 4 } } zero { stage: 1 }").bound.least_bytes,
            9 * kGiB + 4 * kGiB + kGiB / 4);
  EXPECT_EQ(BoundFor("1f1b", 4, 8, 0, "offload { optimizer: true }").bound.least_bytes, 6 * kGiB + 4 * kGiB + kGiB / 4);
  // A split backward also keeps the gradients between its halves.
  EXPECT_GT(BoundFor("zb-h1", 4, 8).bound.least_bytes, BoundFor("1f1b", 4, 8).bound.least_bytes);
}

// A framework that works in tiles holds less than the program plans, once on every rank that has layers of the run.
TEST(PlanBound, TilesSaveBytes) {
  const auto bytes = [](const std::string& name, int64_t of_first_run, int64_t of_second_run) {
    const PipelineSchedule schedule = Build(name, 2, 8, name == "interleaved" ? 2 : 0);
    const ScheduleShape shape = ShapeOf(schedule, /*frees_between_halves=*/false);
    BlockProfile profile = Layers(schedule.stages);
    profile.runs[0].run.layers = schedule.stages - 1;
    profile.runs.push_back(profile.runs[0]);
    profile.runs[1].run = {schedule.stages - 1, 1};
    profile.runs[0].tiled_bytes = of_first_run;
    profile.runs[1].tiled_bytes = of_second_run;
    const std::vector<int32_t> cut(schedule.stages, 1);
    const Plan plan;
    return BoundOf({.profile = profile,
                    .shape = shape,
                    .layers_per_stage = cut,
                    .plan = plan,
                    .workspace_as_planned = false,
                    .capacity = 1000 * kGiB})
        .least_bytes;
  };
  // The first rank needs most: it holds two microbatches.
  EXPECT_EQ(bytes("1f1b", 0, 0), 18 * kGiB + 2 * kGiB);
  EXPECT_EQ(bytes("1f1b", kGiB / 2, 0), 18 * kGiB + 2 * kGiB - kGiB / 2);
  EXPECT_EQ(bytes("1f1b", 0, kGiB), 18 * kGiB + 2 * kGiB);
  // Now the second one.
  EXPECT_EQ(bytes("1f1b", 3 * kGiB, 0), 18 * kGiB + kGiB);
  // Three of four stages have layers of the first run.
  const int64_t interleaved = bytes("interleaved", 0, 0);
  EXPECT_EQ(bytes("interleaved", kGiB / 4, 0), interleaved - kGiB / 4);
  EXPECT_EQ(bytes("interleaved", 1000 * kGiB, 1000 * kGiB), 0);
}

TEST(PlanBound, OnlyTheFirstForwardCastsWeights) {
  const auto seconds = [](int microbatches, const std::string& plan_text) {
    const ScheduleShape shape = ShapeOf(Build("1f1b", 1, microbatches), /*frees_between_halves=*/false);
    BlockProfile profile = Layers(1);
    profile.runs[0].first.first_forward = kForward / 2;
    const std::vector<int32_t> cut = {1};
    const Plan plan = Parse<Plan>(plan_text);
    return BoundOf({.profile = profile, .shape = shape, .layers_per_stage = cut, .plan = plan, .capacity = 1000 * kGiB})
        .least_seconds;
  };
  for (const int microbatches : {1, 8}) {
    const double without = microbatches * (kForward + kBackward) * 1e-12;
    EXPECT_DOUBLE_EQ(seconds(microbatches, ""), without + kForward / 2 * 1e-12);
    EXPECT_DOUBLE_EQ(seconds(microbatches, "zero { stage: 3 }"), without);
  }
}

TEST(PlanBound, ZeroOneKeepsNoRoundedSums) {
  const LayerCosts costs = {.gradient_bytes = 28 * kGiB};
  const std::string exact = "accumulation: EXACT precision { grads: FP32 } mesh { axes { name: 'data' size: 4 } }";
  EXPECT_EQ(StateBytes(Parse<Plan>(exact), costs), 28 * kGiB);
  EXPECT_EQ(StateBytes(Parse<Plan>(exact + " zero { stage: 1 }"), costs), 24 * kGiB);
  EXPECT_EQ(StateBytes(Parse<Plan>(exact + " zero { stage: 2 }"), costs), 7 * kGiB);
}

TEST(PlanBound, LanesShareTheStatesOfAStageOnOneRank) {
  // The middle rank of three holds the middle stage of both directions of GEMS, the others hold two stages.
  EXPECT_EQ(BoundFor("gems", 3, 4).bound.least_bytes, 2 * 18 * kGiB + kGiB + kGiB / 4);
  EXPECT_EQ(BoundFor("gems", 1, 4).bound.least_bytes, 18 * kGiB + kGiB + kGiB / 4);
  // A single microbatch runs down the ranks. The stages of the other direction keep no weights.
  EXPECT_EQ(BoundFor("gems", 2, 1).bound.least_bytes, 18 * kGiB + 16 * kGiB + kGiB + kGiB / 4);
}

TEST(PlanBound, RecomputesTheShareThatDoesNotFit) {
  const std::string fit = "recompute { mode: FIT }";
  const Bounded roomy = BoundFor("1f1b", 4, 8, 0, fit);
  EXPECT_THAT(roomy.bound.recomputed_layers, testing::Each(0));
  // The first rank needs 22.25 GiB. With 20.25 GiB, half of what its four microbatches keep must go.
  const Bounded tight = BoundFor("1f1b", 4, 8, 0, fit, 0, 20 * kGiB + kGiB / 4);
  EXPECT_DOUBLE_EQ(tight.bound.recomputed_layers[0], 0.5);
  EXPECT_DOUBLE_EQ(tight.bound.recomputed_layers[3], 0);
  // The last backwards of the first rank, which nothing hides, take longer.
  EXPECT_GT(tight.tight_seconds, roomy.tight_seconds);
  // 18.25 GiB are needed in any case.
  EXPECT_EQ(tight.bound.least_bytes, 18 * kGiB + kGiB / 4);
}

// A forward may compute while the backward of its pair waits for collectives.
TEST(PlanBound, PairsMayOverlapIfStagesHaveCollectives) {
  const Bounded alone = BoundFor("dualpipe", 4, 16);
  // On each rank, eight microbatches run through each of two stages.
  EXPECT_GE(alone.bound.least_seconds, 16 * (kForward + kBackward) * 1e-12);
  const Bounded waits =
      BoundFor("dualpipe", 4, 16, 0, "mesh { axes { name: 'x' size: 2 } axes { name: 'pipe' size: 4 } }");
  EXPECT_LT(waits.bound.least_seconds, 16 * (kForward + kBackward) * 1e-12);
  EXPECT_GE(waits.bound.least_seconds, 16 * kBackward * 1e-12);
}

// The weights of the first layer, an embedding, are gathered for its forwards alone.
TEST(PlanBound, TheFirstLayersWeightsAreGatheredOnce) {
  const PipelineSchedule schedule = Build("1f1b", 1, 4);
  const ScheduleShape shape = ShapeOf(schedule, /*frees_between_halves=*/false);
  BlockProfile profile = Layers(3);
  profile.runs[0].run = {1, 2};
  profile.runs.insert(profile.runs.begin(), RunCosts{{0, 1}, {.parameter_bytes = 10 * kGiB}, {}, {}});
  const std::vector<int32_t> cut = {3};
  const auto seconds = [&](const std::string& zero) {
    const Plan plan = Parse<Plan>("mesh { axes { name: 'data' size: 2 } } " + zero);
    return BoundOf({.profile = profile,
                    .shape = shape,
                    .layers_per_stage = cut,
                    .plan = plan,
                    .network = {.gather_ps_per_byte = 1},
                    .capacity = 1000 * kGiB})
        .least_seconds;
  };
  // Four microbatches, two blocks of 2 GiB.
  EXPECT_DOUBLE_EQ(seconds("zero { stage: 3 }"), 4 * (10 + 2 * 4) * kGiB * 1e-12);
  EXPECT_DOUBLE_EQ(seconds("zero { stage: 3 reshard: AFTER_BACKWARD }"), 4 * (10 + 4) * kGiB * 1e-12);
}

// ZeRO 1 scatters what replicas with whole states sum.
TEST(PlanBound, EachCollectiveHasItsOwnTime) {
  const PipelineSchedule schedule = Build("1f1b", 1, 4);
  const ScheduleShape shape = ShapeOf(schedule, /*frees_between_halves=*/false);
  const BlockProfile profile = Layers(1);
  const std::vector<int32_t> cut = {1};
  const auto seconds = [&](const std::string& zero, const NetworkTimes& network) {
    const Plan plan =
        Parse<Plan>("mesh { axes { name: 'data' size: 2 } } precision { grads: FP32 reduce: FP32 } " + zero);
    return BoundOf({.profile = profile,
                    .shape = shape,
                    .layers_per_stage = cut,
                    .plan = plan,
                    .network = network,
                    .sums_after_backward = true,
                    .capacity = 1000 * kGiB})
        .least_seconds;
  };
  for (const auto& [zero, network] : {std::pair<std::string, NetworkTimes>{"", {.sum_ps_per_byte = 1}},
                                      {"zero { stage: 1 }", {.scatter_ps_per_byte = 1}}}) {
    EXPECT_DOUBLE_EQ(seconds(zero, network) - seconds(zero, {}), 4 * kGiB * 1e-12) << zero;
  }
  EXPECT_DOUBLE_EQ(seconds("zero { stage: 1 }", {.sum_ps_per_byte = 1}), seconds("zero { stage: 1 }", {}));
}

// The first rank of an interleaved schedule holds more microbatches of its first layer than of its last one.
TEST(PlanBound, TheFirstLayersFreeMost) {
  const std::string fit = "recompute { mode: FIT }";
  const ScheduleShape shape = ShapeOf(Build("interleaved", 2, 8, 2), /*frees_between_halves=*/false);
  int64_t most = 0, of_first = 0;
  for (const ScheduleShape::Held& moment : shape.held[0]) {
    int64_t all = 0;
    for (const auto& [stage, count] : moment.saved) all += count;
    if (all <= most) continue;
    most = all;
    of_first = moment.saved[0].second;
  }
  ASSERT_GT(2 * of_first, most);
  // Two layers' states, the activations and the workspace of a backward; all that the first layer keeps is too much.
  const int64_t needed = 36 * kGiB + most * kGiB + kGiB / 4;
  const Bounded none = BoundFor("interleaved", 2, 8, 2, fit, 0, needed);
  EXPECT_DOUBLE_EQ(none.bound.recomputed_layers[0], 0);
  const Bounded one = BoundFor("interleaved", 2, 8, 2, fit, 0, needed - of_first * kGiB);
  EXPECT_DOUBLE_EQ(one.bound.recomputed_layers[0], 1);
}

// Nothing but what a schedule's own backwards keep is counted: a schedule with halves alone has no whole backwards.
TEST(PlanBound, TheBytesOfOneFormGoTogether) {
  const PipelineSchedule schedule = Build("zb-h1", 4, 8);
  const ScheduleShape shape = ShapeOf(schedule, /*frees_between_halves=*/false);
  BlockProfile profile = Layers(4);
  const std::vector<int32_t> cut(4, 1);
  const Plan plan = Parse<Plan>("recompute { mode: FIT }");
  const auto bound = [&](int64_t half, int64_t gradients, int64_t capacity) {
    BlockProfile recomputed = profile;
    for (LayerCosts* costs : {&recomputed.runs[0].first, &recomputed.runs[0].further}) {
      costs->half_saved_bytes = half;
      costs->saved_gradient_bytes = gradients;
      costs->backward_input += kForward;
    }
    return BoundOf({.profile = profile,
                    .recomputed = &recomputed,
                    .shape = shape,
                    .layers_per_stage = cut,
                    .plan = plan,
                    .capacity = capacity});
  };
  const int64_t needed = bound(kGiB, kGiB / 2, 0).least_bytes;
  // What recomputing keeps more between the halves is not needed by a plan that fits with a little less.
  EXPECT_NEAR(bound(0, kGiB, needed - kGiB / 8).recomputed_layers[0],
              bound(0, kGiB / 2, needed - kGiB / 8).recomputed_layers[0], 0.05);
  profile.runs[0].first.saved_bytes = profile.runs[0].further.saved_bytes = 0;
  EXPECT_EQ(bound(kGiB, kGiB / 2, 0).least_bytes, needed);
}

// A pipeline of two ranks, the slower of which takes twice as long for everything.
PlanBound BoundOnTwoKinds(bool first_is_slow, int microbatches, int64_t capacity_of_fast, double* tight_seconds) {
  const PipelineSchedule schedule = Build("1f1b", 2, microbatches);
  const ScheduleShape shape = ShapeOf(schedule, /*frees_between_halves=*/false);
  const BlockProfile fast = Layers(2);
  BlockProfile slow = fast;
  for (LayerCosts* costs : {&slow.runs[0].first, &slow.runs[0].further}) {
    for (int64_t* time : {&costs->forward, &costs->backward, &costs->backward_input, &costs->backward_weight}) {
      *time *= 2;
    }
  }
  const std::vector<int32_t> cut = {1, 1};
  const Plan plan;
  BoundInputs inputs{.profile = fast, .shape = shape, .layers_per_stage = cut, .plan = plan};
  inputs.devices = {{.profile = &fast, .capacity = capacity_of_fast}, {.profile = &slow, .capacity = 1000 * kGiB}};
  if (first_is_slow) std::swap(inputs.devices[0], inputs.devices[1]);
  const PlanBound bound = BoundOf(inputs);
  PlanBound tight = bound;
  EXPECT_TRUE(TightenBound(inputs, schedule, microbatches, &tight).ok());
  *tight_seconds = tight.least_seconds;
  return bound;
}

TEST(PlanBound, EveryRankIsOnItsOwnDevice) {
  double tight = 0;
  for (const int microbatches : {4, 16}) {
    // The second rank works without a pause, between the forward and the backward of one microbatch on the first.
    const double second_slow = (2 * microbatches + 1) * (kForward + kBackward) * 1e-12;
    EXPECT_DOUBLE_EQ(BoundOnTwoKinds(false, microbatches, 1000 * kGiB, &tight).least_seconds, second_slow);
    EXPECT_DOUBLE_EQ(tight, second_slow);
    // The first rank works without a pause, except that it waits for the second before its first and its last backward.
    EXPECT_DOUBLE_EQ(BoundOnTwoKinds(true, microbatches, 1000 * kGiB, &tight).least_seconds,
                     2 * microbatches * (kForward + kBackward) * 1e-12);
    EXPECT_GE(tight, 2 * microbatches * (kForward + kBackward) * 1e-12);
  }
}

TEST(PlanBound, EveryRankFitsItsOwnDevice) {
  double tight = 0;
  // The states take 18 GiB. The first rank also holds two microbatches of 1 GiB, the second one, and a backward needs a
  // quarter.
  EXPECT_TRUE(BoundOnTwoKinds(false, 4, 21 * kGiB, &tight).fits);
  EXPECT_FALSE(BoundOnTwoKinds(false, 4, 20 * kGiB, &tight).fits);
  EXPECT_TRUE(BoundOnTwoKinds(true, 4, 20 * kGiB, &tight).fits);
  EXPECT_FALSE(BoundOnTwoKinds(true, 4, 19 * kGiB, &tight).fits);
}

}  // namespace
}  // namespace weft::planner
