// N plans, one loss: plans that together try every pair of settings for distributing a model. The losses of all plans
// are within 1e-5 of the losses of one rank (5e-3 in half precision). Under exact accumulation, plans of one
// tensor-parallel shape agree in all bits.
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/e2e/covering_set.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

enum Factor {
  kX,
  kY,
  kZ,
  kData,
  kPipe,
  kOrder,
  kSchedule,
  kZero,
  kRecompute,
  kAttention,
  kOffload,
  kOverlap,
  kRows,
  kDropout,
  kClip,
  kScale,
  kAlgorithm,
  kAccumulation,
  kPostValidation,
  kFactors
};

constexpr int kSizes[] = {1, 2, 4};

struct Schedule {
  const char* name;
  const char* fields;
  // True if a rank has more than one stage.
  bool several = false;
};
constexpr Schedule kSchedules[] = {{"1f1b", ""},
                                   {"gpipe", ""},
                                   {"zb-h1", ""},
                                   {"chimera", ""},
                                   {"zb-v", "", true},
                                   {"interleaved", "virtual_stages: 2", true},
                                   {"hanayo", "", true},
                                   {"dualpipev", "", true},
                                   {"looped-bfs", "", true},
                                   {"chimera", "scaling: FORWARD_DOUBLING"},
                                   {"axonn", "freeze: true"}};
// Indices in kSchedules: the schedule whose forwards have two microbatches, and the schedule that takes its order from
// a simulated iteration.
constexpr int kDoubled = 9, kFrozen = 10;
constexpr const char* kZeros[] = {"",
                                  "zero { stage: 1 }",
                                  "zero { stage: 2 }",
                                  "zero { stage: 3 }",
                                  "zero { stage: 3 group: 2 }",
                                  "zero { stage: 1 group: 2 }",
                                  "zero { stage: 3 reshard: AFTER_BACKWARD prefetch: 0 }",
                                  "zero { stage: 3 reshard: LAYERS kept_layers: [1, 3] prefetch: 2 }",
                                  "zero { stage: 3 reshard: BY_BENEFIT }"};
constexpr int kInGroups = 4, kPrefetchTwo = 7;
constexpr const char* kRecomputes[] = {"mode: NONE", "mode: FULL", "mode: EVERY every: 2", "mode: INTERVAL interval: 2",
                                       "mode: SELECTIVE"};
constexpr const char* kAttentions[] = {"", "attention: MATERIALIZED", "attention: MATERIALIZED dropout_masks: true"};
constexpr const char* kOffloads[] = {"", "offload { optimizer: true bucket_elements: 4096 }",
                                     "offload { activation_layers: 1 }"};
// The second scale works in any precision. The third is dynamic and needs FP16.
constexpr const char* kScales[] = {"", "loss_scale { fixed: 1024 }", "loss_scale { initial: 1024 }"};
constexpr int kHalf = 2;
constexpr const char* kOverlaps[] = {"", "overlap { all_reduce: false reduce_scatter: false all_gather: false }",
                                     "overlap { gathered_cache_bytes: 20000 }"};

template <typename T, size_t n>
constexpr int Count(const T (&)[n]) {
  return static_cast<int>(n);
}

std::vector<int> Levels() {
  std::vector<int> levels(kFactors, 2);
  levels[kData] = levels[kPipe] = levels[kOrder] = 3;
  levels[kSchedule] = Count(kSchedules);
  levels[kZero] = Count(kZeros);
  levels[kRecompute] = Count(kRecomputes);
  levels[kAttention] = Count(kAttentions);
  levels[kOffload] = Count(kOffloads);
  levels[kOverlap] = Count(kOverlaps);
  levels[kScale] = Count(kScales);
  return levels;
}

// False for plans that the compiler refuses, and for plans in which a setting has no effect.
bool IsPlan(const Choice& c) {
  const int data = kSizes[c[kData]], pipe = kSizes[c[kPipe]], tensor = (c[kX] + 1) * (c[kY] + 1) * (c[kZ] + 1);
  if (tensor * data * pipe > 16) return false;
  const Schedule& schedule = kSchedules[c[kSchedule]];
  if (pipe == 1 && c[kSchedule] > 1) return false;
  if (pipe != 2 && schedule.several) return false;
  // DualPipeV needs at least four microbatches per replica.
  if (data == 4 && schedule.name == std::string("dualpipev")) return false;
  // Forward doubling needs at least as many pairs of microbatches as the pipeline has ranks.
  if (c[kSchedule] == kDoubled && pipe * data > 4) return false;
  // In a simulated order, the microbatches keep their order only by chance. So in-order accumulation is left out.
  if (c[kSchedule] == kFrozen && c[kAccumulation] == 0) return false;
  // ZeRO needs replicas, and a sharding group of two needs replicas outside it.
  if (c[kZero] > 0 && data == 1) return false;
  if ((c[kZero] == kInGroups || c[kZero] == kInGroups + 1) && data != 4) return false;
  // zero.prefetch contradicts blocking gathers (all_gather: false).
  if (c[kZero] == kPrefetchTwo && c[kOverlap] == 1) return false;
  if (kRecomputes[c[kRecompute]] == std::string("mode: SELECTIVE") && c[kAttention] == 0) return false;
  if (c[kAttention] == 2 && c[kDropout] == 0) return false;
  // Updates can be undone only on the device that made them.
  if (c[kPostValidation] == 1 && c[kOffload] > 0) return false;
  if (c[kOverlap] > 0 && tensor == 1 && c[kZero] < 2) return false;
  return c[kRows] == 0 || (c[kX] == 1 && c[kY] == 0);
}

std::string MeshOf(const Choice& c) {
  const std::vector<std::pair<std::string, int>> axes = {
      {"x", c[kX] + 1}, {"y", c[kY] + 1}, {"z", c[kZ] + 1}, {"data", kSizes[c[kData]]}, {"pipe", kSizes[c[kPipe]]}};
  constexpr int kOrders[][5] = {{0, 1, 2, 3, 4}, {4, 2, 1, 3, 0}, {3, 0, 4, 1, 2}};
  std::string mesh;
  for (int axis : kOrders[c[kOrder]])
    absl::StrAppend(&mesh, mesh.empty() ? "" : " ", axes[axis].first, axes[axis].second);
  return mesh;
}

std::string FieldsOf(const Choice& c) {
  return absl::StrCat(kZeros[c[kZero]], " ", kAttentions[c[kAttention]], " ", kOffloads[c[kOffload]], " ",
                      kOverlaps[c[kOverlap]], " ", kScales[c[kScale]], c[kRows] ? " sequence_parallel: true" : "",
                      c[kAlgorithm] ? " collective: 'direct'" : "", c[kPostValidation] ? " post_validation: true" : "");
}

TinyPlan PlanOf(const std::string& family, const Choice& c) {
  TinyPlan plan{.steps = 3, .layers = 4, .batch = 16, .microbatch = 2, .mesh = MeshOf(c)};
  plan.family = family;
  plan.schedule = kSchedules[c[kSchedule]].name;
  plan.schedule_fields = kSchedules[c[kSchedule]].fields;
  plan.recompute_fields = kRecomputes[c[kRecompute]];
  plan.dropout = c[kDropout] * 0.1;
  plan.clip = c[kClip] * 0.5;
  plan.exact = c[kAccumulation] == 1;
  if (c[kScale] == kHalf) plan.half = "fp16";
  plan.plan_fields = FieldsOf(c);
  return plan;
}

// Uses a small learning rate; otherwise rounding differences would grow beyond the tolerance.
UnetPlan UnetPlanOf(const Choice& c) {
  UnetPlan plan{.schedule = kSchedules[c[kSchedule]].name, .exact = c[kAccumulation] == 1, .mesh = MeshOf(c)};
  plan.recompute = kRecomputes[c[kRecompute]] + sizeof("mode:");
  plan.schedule_fields = kSchedules[c[kSchedule]].fields;
  plan.plan_fields = FieldsOf(c);
  plan.clip_norm = c[kClip] * 0.5;
  plan.dropout = c[kDropout] * 0.1;
  plan.microbatch = 2;
  plan.batch = 16;
  plan.steps = 3;
  plan.learning_rate = 0.002;
  plan.fp16 = c[kScale] == kHalf;
  return plan;
}

// The plans that the test tries for a U-Net. There is no sequence parallelism, because convolutions and group norms
// need whole images. The test also leaves out ZeRO in groups and with a reshard setting, forward doubling, frozen
// orders, and ZeRO over four replicas with z = 2.
bool IsUnetPlan(const Choice& c) {
  return IsPlan(c) && c[kRows] == 0 && c[kZero] < kInGroups && c[kSchedule] < kDoubled &&
         !(c[kZero] > 0 && c[kZ] == 1 && kSizes[c[kData]] == 4);
}

// The simplest plan that must have the same bits: one replica, one stage.
Choice SameShape(const Choice& c) {
  Choice same(kFactors, 0);
  for (Factor factor : {kX, kY, kZ, kRows, kDropout, kClip, kScale, kAlgorithm, kAccumulation})
    same[factor] = c[factor];
  // Stored masks equal the masks that would be drawn again, so plans with and without them have the same bits.
  same[kAttention] = c[kAttention] > 0;
  return same;
}

class CoveringPlansTest : public testing::TestWithParam<std::string> {
 protected:
  bool images() const { return GetParam() == "unet"; }
  std::string Name(const Choice& c) const {
    return images() ? absl::StrCat("unet ", UnetPlanOf(c).Name()) : PlanOf(GetParam(), c).Name();
  }
  // Returns null if training failed.
  const Outcome* Run(const Choice& c) {
    const auto [found, is_new] = outcomes_.try_emplace(c);
    if (is_new) {
      absl::StatusOr<Outcome> outcome = images() ? TrainUnet(UnetPlanOf(c)) : TrainTiny(PlanOf(GetParam(), c));
      EXPECT_TRUE(outcome.ok()) << Name(c) << ": " << outcome.status();
      if (outcome.ok()) found->second = *std::move(outcome);
    }
    return found->second.losses.empty() ? nullptr : &found->second;
  }

  std::map<Choice, Outcome> outcomes_;
};

TEST_P(CoveringPlansTest, TrainAlike) {
  const auto valid = images() ? IsUnetPlan : IsPlan;
  const std::vector<int> levels = Levels();
  const std::vector<Choice> covering = CoveringSet(levels, valid, 7);
  std::set<Choice> choices(covering.begin(), covering.end());
  // Add random choices up to 100.
  std::mt19937 random(11);
  while (choices.size() < 100) {
    Choice choice;
    for (int level : levels) choice.push_back(static_cast<int>(random() % level));
    if (valid(choice)) choices.insert(choice);
  }
  for (const Choice& c : choices) {
    const std::string name = Name(c);
    SCOPED_TRACE(name);
    const bool half = c[kScale] == kHalf;
    Choice one(kFactors, 0);
    one[kDropout] = c[kDropout];
    one[kClip] = c[kClip];
    if (half) one[kScale] = kHalf;
    const Outcome *outcome = Run(c), *reference = Run(one);
    if (outcome == nullptr || reference == nullptr) continue;
    ExpectClose(*outcome, *reference, name, half ? 5e-3 : 1e-5);
    if (c[kAccumulation] == 0) continue;
    const Outcome* same = Run(SameShape(c));
    if (same != nullptr) ExpectSame(*outcome, *same, name);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CoveringPlansTest, testing::Values("gpt2", "llama", "bert", "unet"),
                         [](const testing::TestParamInfo<std::string>& info) { return info.param; });

}  // namespace
}  // namespace weft
