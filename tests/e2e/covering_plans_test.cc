// N plans, one loss: plans that try every two choices of how a model is spread together. All come within 1e-5 of one
// rank's losses, and under exact accumulation plans of one tensor-parallel shape agree in all bits.
#include <map>
#include <random>
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
  kAccumulation,
  kFactors
};

constexpr int kSizes[] = {1, 2, 4};

struct Schedule {
  const char* name;
  const char* fields;
  // More than one stage on a rank.
  bool several = false;
};
constexpr Schedule kSchedules[] = {
    {"1f1b", ""},         {"gpipe", ""},           {"zb-h1", ""},
    {"chimera", ""},      {"zb-v", "", true},      {"interleaved", "virtual_stages: 2", true},
    {"hanayo", "", true}, {"dualpipev", "", true}, {"looped-bfs", "", true}};
constexpr const char* kZeros[] = {"",
                                  "zero { stage: 1 }",
                                  "zero { stage: 2 }",
                                  "zero { stage: 3 }",
                                  "zero { stage: 3 group: 2 }",
                                  "zero { stage: 1 group: 2 }"};
constexpr const char* kRecomputes[] = {"mode: NONE", "mode: FULL", "mode: EVERY every: 2", "mode: INTERVAL interval: 2",
                                       "mode: SELECTIVE"};
constexpr const char* kAttentions[] = {"", "attention: MATERIALIZED", "attention: MATERIALIZED dropout_masks: true"};
constexpr const char* kOffloads[] = {"", "offload { optimizer: true bucket_elements: 4096 }",
                                     "offload { activation_layers: 1 }"};
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
  return levels;
}

// What a plan may not say, or what would say nothing.
bool IsPlan(const Choice& c) {
  const int data = kSizes[c[kData]], pipe = kSizes[c[kPipe]], tensor = (c[kX] + 1) * (c[kY] + 1) * (c[kZ] + 1);
  if (tensor * data * pipe > 16) return false;
  const Schedule& schedule = kSchedules[c[kSchedule]];
  if (pipe == 1 && c[kSchedule] > 1) return false;
  if (pipe != 2 && schedule.several) return false;
  // Four microbatches of a replica at least.
  if (data == 4 && schedule.name == std::string("dualpipev")) return false;
  // Their copies need forwards and backwards that are actions of their own.
  if (c[kOffload] == 2 && schedule.name == std::string("dualpipev")) return false;
  // A group needs replicas beside it.
  if (c[kZero] > 0 && data == 1) return false;
  if (c[kZero] > 3 && data != 4) return false;
  // Parameters that are gathered behind the optimizer step, and states in host memory.
  const bool gathers =
      kZeros[c[kZero]] != std::string() && std::string(kZeros[c[kZero]]).find("stage: 3") == std::string::npos;
  if (gathers && c[kOffload] == 1) return false;
  // Its forwards and backwards that run as one leave no time to bring activations back.
  if (c[kOffload] == 2 && schedule.name == std::string("dualpipev")) return false;
  if (kRecomputes[c[kRecompute]] == std::string("mode: SELECTIVE") && c[kAttention] == 0) return false;
  if (c[kAttention] == 2 && c[kDropout] == 0) return false;
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

TinyPlan PlanOf(const std::string& family, const Choice& c) {
  TinyPlan plan{.steps = 3, .layers = 4, .batch = 16, .microbatch = 2, .mesh = MeshOf(c)};
  plan.family = family;
  plan.schedule = kSchedules[c[kSchedule]].name;
  plan.schedule_fields = kSchedules[c[kSchedule]].fields;
  plan.recompute_fields = kRecomputes[c[kRecompute]];
  plan.dropout = c[kDropout] * 0.1;
  plan.clip = c[kClip] * 0.5;
  plan.exact = c[kAccumulation] == 1;
  plan.plan_fields = absl::StrCat(kZeros[c[kZero]], " ", kAttentions[c[kAttention]], " ", kOffloads[c[kOffload]], " ",
                                  kOverlaps[c[kOverlap]], c[kRows] ? " sequence_parallel: true" : "",
                                  c[kScale] ? " loss_scale { fixed: 1024 }" : "");
  return plan;
}

// The plainest plan that must have the same bits: one replica, one stage.
Choice SameShape(const Choice& c) {
  Choice same(kFactors, 0);
  for (Factor factor : {kX, kY, kZ, kRows, kDropout, kClip, kScale, kAccumulation}) same[factor] = c[factor];
  // Masks that are kept are those that would be drawn again.
  same[kAttention] = c[kAttention] > 0;
  return same;
}

class CoveringPlansTest : public testing::TestWithParam<std::string> {
 protected:
  // Null after a failure.
  const Outcome* Run(const Choice& c) {
    const TinyPlan plan = PlanOf(GetParam(), c);
    const auto [found, is_new] = outcomes_.try_emplace(c);
    if (is_new) {
      absl::StatusOr<Outcome> outcome = TrainTiny(plan);
      EXPECT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
      if (outcome.ok()) found->second = *std::move(outcome);
    }
    return found->second.losses.empty() ? nullptr : &found->second;
  }

  std::map<Choice, Outcome> outcomes_;
};

TEST_P(CoveringPlansTest, TrainAlike) {
  const std::string family = GetParam();
  const std::vector<int> levels = Levels();
  std::vector<Choice> choices = CoveringSet(levels, IsPlan, 7);
  // And some more at random.
  std::mt19937 random(11);
  while (choices.size() < 100) {
    Choice choice;
    for (int level : levels) choice.push_back(static_cast<int>(random() % level));
    if (IsPlan(choice)) choices.push_back(choice);
  }
  for (const Choice& c : choices) {
    const TinyPlan plan = PlanOf(family, c);
    SCOPED_TRACE(plan.Name());
    Choice one(kFactors, 0);
    one[kDropout] = c[kDropout];
    one[kClip] = c[kClip];
    const Outcome *outcome = Run(c), *reference = Run(one);
    if (outcome == nullptr || reference == nullptr) continue;
    ExpectClose(*outcome, *reference, plan.Name());
    if (!plan.exact) continue;
    const Outcome* same = Run(SameShape(c));
    if (same != nullptr) ExpectSame(*outcome, *same, plan.Name());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CoveringPlansTest, testing::Values("gpt2", "llama", "bert"),
                         [](const testing::TestParamInfo<std::string>& info) { return info.param; });

}  // namespace
}  // namespace weft
