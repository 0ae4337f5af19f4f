// Schedules without a flush (rule P14) train alike however states, batches and layers are sharded: bit for bit if the
// same numbers are summed in the same order, else within rounding. By design they train differently from a schedule
// that flushes, so each is compared with itself under a plan with fewer cuts.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/covering_set.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr int kSteps = 8;

// Returns a plan with microbatches of two sequences: one microbatch per replica and iteration for PipeDream, three for
// the other schedule.
TinyPlan PlanOf(const std::string& schedule, const std::string& mesh, int replicas, const std::string& fields = "") {
  TinyPlan plan{
      .schedule = schedule, .steps = kSteps, .layers = 4, .microbatch = 2, .mesh = mesh, .clip = 0, .tied = false};
  plan.batch = 2 * replicas * (schedule == "pipedream" ? 1 : 3);
  plan.plan_fields = fields;
  return plan;
}

Outcome Trained(const TinyPlan& plan) {
  const auto outcome = TrainTiny(plan);
  EXPECT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
  if (!outcome.ok()) return {};
  EXPECT_EQ(outcome->losses.size(), kSteps);
  for (const double loss : outcome->losses) EXPECT_TRUE(std::isfinite(loss)) << plan.Name();
  EXPECT_NE(outcome->losses.front(), outcome->losses.back());
  return *outcome;
}

class Schedules : public testing::TestWithParam<std::string> {};

TEST_P(Schedules, ReplicasThatShareStatesHaveTheSameBits) {
  for (const bool half : {false, true}) {
    TinyPlan plan = PlanOf(GetParam(), "data4 pipe2", 4);
    plan.bf16 = half;
    const Outcome whole = Trained(plan);
    for (const char* zero : {"zero { stage: 1 }", "zero { stage: 1 group: 2 }"}) {
      plan.plan_fields = zero;
      // Sharding in groups changes the order of sums: first within a group, then over the groups.
      const bool groups = std::string(zero).find("group") != std::string::npos;
      if (groups) {
        ExpectClose(Trained(plan), whole, plan.Name(), half ? 2e-3 : 1e-5);
      } else {
        ExpectSame(Trained(plan), whole, plan.Name());
      }
    }
  }
}

// ZeRO 2 sums each backward's gradients over replicas before summing over microbatches, which changes the order.
TEST_P(Schedules, GradientsAndWeightsInParts) {
  const Outcome whole = Trained(PlanOf(GetParam(), "data2 pipe2", 2));
  const Outcome two = Trained(PlanOf(GetParam(), "data2 pipe2", 2, "zero { stage: 2 }"));
  ExpectClose(two, whole, "stage 2");
  if (GetParam() == "pipedream") ExpectSame(two, whole, "stage 2, one microbatch");
  for (const char* zero : {"zero { stage: 3 }", "zero { stage: 3 reshard: AFTER_BACKWARD prefetch: 0 }",
                           "zero { stage: 3 reshard: LAYERS kept_layers: [1] }"}) {
    ExpectSame(Trained(PlanOf(GetParam(), "data2 pipe2", 2, zero)), two, zero);
  }
}

TEST_P(Schedules, LayersAreCutOverRanks) {
  const Outcome whole = Trained(PlanOf(GetParam(), "pipe2", 1));
  for (const char* mesh : {"x2 pipe2", "pipe2 y2", "z2 pipe2", "x2 pipe2 z2"}) {
    const Outcome cut = Trained(PlanOf(GetParam(), mesh, 1));
    ExpectClose(cut, whole, mesh);
    ExpectSame(
        Trained(PlanOf(GetParam(), mesh, 1, "overlap { all_reduce: false reduce_scatter: false all_gather: false }")),
        cut, absl::StrCat(mesh, " without overlap"));
  }
  const Outcome cut = Trained(PlanOf(GetParam(), "x2 pipe2", 1, "sequence_parallel: true"));
  ExpectClose(cut, whole, "sequence parallel");
  const Outcome replicas = Trained(PlanOf(GetParam(), "data2 pipe2 z2", 2));
  ExpectClose(Trained(PlanOf(GetParam(), "data2 pipe2 z2", 2, "zero { stage: 1 }")), replicas, "z2, stage 1");
}

// A power of two as scale changes no bit of fp32, and fp16 without subnormal gradients trains like fp32.
TEST_P(Schedules, FixedLossScale) {
  TinyPlan plan = PlanOf(GetParam(), "data2 pipe2", 2);
  const Outcome plain = Trained(plan);
  plan.plan_fields = "loss_scale { fixed: 1024 }";
  ExpectSame(Trained(plan), plain, "a power of two");
  plan.plan_fields = "loss_scale { fixed: 1000 } zero { stage: 1 }";
  ExpectClose(Trained(plan), plain, "another number");
  for (const char* half : {"fp16", "fp16 grads"}) {
    plan.half = half;
    plan.plan_fields = "loss_scale { fixed: 1024 }";
    const Outcome whole = Trained(plan);
    ExpectClose(whole, plain, half, 5e-3);
    plan.plan_fields = "loss_scale { fixed: 1024 } zero { stage: 1 }";
    ExpectSame(Trained(plan), whole, absl::StrCat(half, ", stage 1"));
  }
}

TEST_P(Schedules, OtherOptimizersAndDeeperPipelines) {
  for (const char* optimizer : {"sgd { momentum: 0.9 }", "sgd {}"}) {
    TinyPlan plan = PlanOf(GetParam(), "data2 pipe4", 2);
    plan.optimizer = optimizer;
    if (GetParam() != "pipedream") plan.batch = 16;
    const Outcome whole = Trained(plan);
    plan.plan_fields = "zero { stage: 1 }";
    ExpectSame(Trained(plan), whole, optimizer);
  }
}

INSTANTIATE_TEST_SUITE_P(AsynchronousPlansTest, Schedules, testing::Values("pipedream", "pipedream-2bw"),
                         [](const auto& info) { return info.param == "pipedream" ? "PipeDream" : "TwoCopies"; });

enum Factor {
  kX,
  kY,
  kZ,
  kData,
  kPipe,
  kOrder,
  kZero,
  kRecompute,
  kAttention,
  kOverlap,
  kRows,
  kDropout,
  kScale,
  kFactors
};

constexpr int kSizes[] = {1, 2, 4};
constexpr const char* kZeros[] = {"", "zero { stage: 1 }", "zero { stage: 2 }", "zero { stage: 3 }"};
constexpr const char* kRecomputes[] = {"mode: NONE", "mode: FULL", "mode: EVERY every: 2", "mode: SELECTIVE"};
constexpr const char* kAttentions[] = {"", "attention: MATERIALIZED"};
constexpr const char* kOverlaps[] = {"", "overlap { all_reduce: false reduce_scatter: false all_gather: false }",
                                     "overlap { gathered_cache_bytes: 20000 }"};
constexpr const char* kScales[] = {"", "loss_scale { fixed: 1024 }"};

bool IsPlan(const Choice& c) {
  const int data = kSizes[c[kData]], pipe = kSizes[c[kPipe]], tensor = (c[kX] + 1) * (c[kY] + 1) * (c[kZ] + 1);
  // A batch has eight microbatches, and each replica needs at least one per stage.
  if (tensor * data * pipe > 16 || pipe * data > 8) return false;
  if (c[kZero] > 0 && data == 1) return false;
  if (c[kRecompute] == 3 && c[kAttention] == 0) return false;
  if (c[kOverlap] > 0 && tensor == 1 && c[kZero] < 2) return false;
  return c[kRows] == 0 || (c[kX] == 1 && c[kY] == 0);
}

TinyPlan PlanOf(const Choice& c) {
  constexpr int kOrders[][5] = {{0, 1, 2, 3, 4}, {4, 2, 1, 3, 0}, {3, 0, 4, 1, 2}};
  const std::string axes[] = {absl::StrCat("x", c[kX] + 1), absl::StrCat("y", c[kY] + 1), absl::StrCat("z", c[kZ] + 1),
                              absl::StrCat("data", kSizes[c[kData]]), absl::StrCat("pipe", kSizes[c[kPipe]])};
  TinyPlan plan{
      .schedule = "pipedream-2bw", .steps = 4, .layers = 4, .batch = 16, .microbatch = 2, .clip = 0, .tied = false};
  for (int axis : kOrders[c[kOrder]]) absl::StrAppend(&plan.mesh, plan.mesh.empty() ? "" : " ", axes[axis]);
  plan.recompute_fields = kRecomputes[c[kRecompute]];
  plan.dropout = c[kDropout] * 0.1;
  plan.plan_fields = absl::StrCat(kZeros[c[kZero]], " ", kAttentions[c[kAttention]], " ", kOverlaps[c[kOverlap]], " ",
                                  kScales[c[kScale]], c[kRows] ? " sequence_parallel: true" : "");
  return plan;
}

// With two copies of the weights (PipeDream-2BW), every update uses gradients of weights that are one update old,
// whatever the depth of the pipeline. So all plans have one loss. Every pair of settings occurs in some plan.
TEST(AsynchronousPlansTest, TwoCopiesTrainAlikeWhateverThePlan) {
  const std::vector<int> levels = {2, 2, 2, 3, 3, 3, 4, 4, 2, 3, 2, 2, 2};
  ASSERT_EQ(levels.size(), size_t{kFactors});
  std::map<Choice, Outcome> outcomes;
  const auto run = [&](const Choice& c) -> const Outcome& {
    const auto [found, fresh] = outcomes.try_emplace(c);
    if (fresh) {
      const auto outcome = TrainTiny(PlanOf(c));
      EXPECT_TRUE(outcome.ok()) << PlanOf(c).Name() << ": " << outcome.status();
      if (outcome.ok()) found->second = *outcome;
    }
    return found->second;
  };
  for (const Choice& c : CoveringSet(levels, IsPlan, 5)) {
    const std::string name = PlanOf(c).Name();
    SCOPED_TRACE(name);
    Choice one(kFactors, 0), same = c;
    one[kDropout] = c[kDropout];
    ExpectClose(run(c), run(one), name);
    // These settings change no order of summation, so resetting them must change no bit.
    for (Factor factor : {kPipe, kRecompute, kOverlap, kScale}) same[factor] = 0;
    // With a tensor-parallel axis, gradients are partial sums over several axes. The order of the axes in the mesh then
    // decides the order of summation, and gradients that are scattered over replicas are summed over the other axes
    // last. Without such an axis, neither the axis order nor ZeRO 1 changes a bit.
    if (c[kX] + c[kY] + c[kZ] == 0) {
      same[kOrder] = 0;
      if (c[kZero] == 1) same[kZero] = 0;
    }
    ExpectSame(run(c), run(same), name);
  }
}

TEST(AsynchronousPlansTest, NothingTellsADynamicScaleOfAnOverflow) {
  TinyPlan plan = PlanOf("pipedream-2bw", "pipe2", 1);
  plan.half = "fp16";
  EXPECT_THAT(std::string(CompileTiny(plan).status().message()), HasSubstr("set plan.loss_scale.fixed"));
}

}  // namespace
}  // namespace weft
