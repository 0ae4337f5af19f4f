// ZeRO: whatever is cut over data replicas, and over how many of them, the losses, norms and weights are those of one
// rank. Bit for bit under exact accumulation, within 1e-5 in order; and stage 1 in order is bit for bit what whole
// states give, for it scatters the sum that they all-reduce.
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

constexpr int kSteps = 4;

std::string Zero(int stage, int group = 0) { return absl::StrCat("zero { stage: ", stage, " group: ", group, " } "); }

TinyPlan PlanOf(const std::string& mesh, const std::string& fields, const std::string& schedule = "1f1b") {
  return {.schedule = schedule,
          .steps = kSteps,
          .layers = 2,
          .batch = 16,
          .microbatch = 2,
          .mesh = mesh,
          .plan_fields = fields};
}

// One rank of data and pipe, nothing cut; the shape of x, y and z stays.
TinyPlan OneCopy(TinyPlan plan) {
  std::string mesh = "pipe1";
  for (absl::string_view axis : absl::StrSplit(plan.mesh, ' ')) {
    if (axis[0] != 'd' && axis[0] != 'p') absl::StrAppend(&mesh, " ", axis);
  }
  plan.mesh = mesh;
  plan.schedule = "1f1b";
  plan.schedule_fields = plan.plan_fields = "";
  return plan;
}

// Of plans that differ in what must not matter.
class References {
 public:
  const Outcome& Get(const TinyPlan& plan) {
    const TinyPlan one = OneCopy(plan);
    auto [found, added] = outcomes_.try_emplace(one.Name());
    if (added) {
      const auto outcome = TrainTiny(one);
      EXPECT_TRUE(outcome.ok()) << outcome.status();
      if (outcome.ok()) found->second = *outcome;
      // Clipping is active, or norms would not matter.
      if (outcome.ok() && plan.clip > 0) {
        EXPECT_GT(outcome->norms[0], plan.clip);
      }
    }
    return found->second;
  }

 private:
  std::map<std::string, Outcome> outcomes_;
};

void ExpectLikeOneRank(const TinyPlan& plan, References& references) {
  const auto outcome = TrainTiny(plan);
  ASSERT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
  if (plan.exact) {
    ExpectSame(*outcome, references.Get(plan), plan.Name());
  } else {
    ExpectClose(*outcome, references.Get(plan), plan.Name());
  }
}

std::vector<std::string> StagesAndGroups(bool of_four) {
  std::vector<std::string> fields;
  for (int stage : {0, 1, 2, 3}) {
    fields.push_back(Zero(stage));
    if (of_four && stage > 0) fields.push_back(Zero(stage, 2));
  }
  return fields;
}

class Meshes : public testing::TestWithParam<const char*> {};

TEST_P(Meshes, ExactPlansAgreeInAllBits) {
  References references;
  for (const std::string& fields : StagesAndGroups(std::string(GetParam()).find("data4") != std::string::npos)) {
    for (const bool bf16 : {false, true}) {
      TinyPlan plan = PlanOf(GetParam(), fields);
      plan.exact = true;
      plan.bf16 = bf16;
      ExpectLikeOneRank(plan, references);
    }
  }
}

TEST_P(Meshes, PlansInOrderAgreeWithinRounding) {
  References references;
  for (const std::string& fields : StagesAndGroups(std::string(GetParam()).find("data4") != std::string::npos)) {
    ExpectLikeOneRank(PlanOf(GetParam(), fields), references);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Meshes,
                         testing::Values("data2", "data4", "data2 pipe2", "pipe2 data4", "z2 data2", "x2 data4"));

// In order a range is summed by a reduce-scatter as it is by the all-reduce, whatever the types; without clipping the
// norm, which is summed from parts, does not matter.
TEST(ZeroOneLossTest, StageOneInOrderIsBitForBitStageZero) {
  for (const char* mesh : {"data4", "data2 pipe2", "z2 data2"}) {
    for (const bool bf16 : {false, true}) {
      TinyPlan plan = PlanOf(mesh, "");
      plan.bf16 = bf16;
      plan.clip = 0;
      const auto expected = TrainTiny(plan);
      ASSERT_TRUE(expected.ok()) << expected.status();
      plan.plan_fields = Zero(1);
      auto outcome = TrainTiny(plan);
      ASSERT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
      // But vectors, which z does not cut, are summed over data first and then over z.
      if (std::string(mesh).find('z') != std::string::npos) {
        if (!bf16) ExpectClose(*outcome, *expected, plan.Name());
        continue;
      }
      for (int i = 0; i < kSteps; ++i) EXPECT_NEAR(outcome->norms[i], expected->norms[i], 1e-9 * expected->norms[i]);
      outcome->norms = expected->norms;
      ExpectSame(*outcome, *expected, plan.Name());
    }
  }
}

// Replicas of stages, several stages to a rank, halves of backwards, an order chosen while running, and a tied table in
// all these places.
TEST(ZeroOneLossTest, SchedulesTrainLikeOneRank) {
  struct Case {
    const char* schedule;
    const char* mesh;
    std::string fields;
    const char* schedule_fields = "";
    bool tied = true;
  };
  References references;
  for (const Case& c : {Case{"chimera", "data2 pipe2", Zero(1)},
                        {"chimera", "data2 pipe2", Zero(2)},
                        {"chimera", "data4 pipe2", Zero(1, 2)},
                        {"chimera", "data4 pipe2", Zero(3, 2), "", false},
                        {"interleaved", "pipe2 data2", Zero(1) + "gradient_bucket_bytes: 4096", "virtual_stages: 2"},
                        {"interleaved", "pipe2 data2", Zero(2), "virtual_stages: 2", false},
                        {"zb-h1", "data2 pipe2", Zero(1)},
                        {"zb-h1", "data4 pipe2", Zero(2, 2)},
                        {"hanayo", "data2 pipe2", Zero(1) + "gradient_sync: LAZY", "waves: 1"},
                        {"dualpipe", "data2 pipe2", Zero(1), "", false},
                        {"gpipe", "data4 pipe2", Zero(1, 2) + "gradient_sync: EAGER_OPT"},
                        {"axonn", "data2 pipe2", Zero(1)},
                        {"axonn", "data2 pipe2", Zero(2), "freeze: true"},
                        {"axonn", "data4 pipe2", Zero(3, 2), "freeze: true", false}}) {
    TinyPlan plan = PlanOf(c.mesh, c.fields, c.schedule);
    plan.schedule_fields = c.schedule_fields;
    plan.tied = c.tied;
    plan.exact = true;
    plan.layers = 4;
    plan.bf16 = c.tied;
    ExpectLikeOneRank(plan, references);
  }
}

TEST(ZeroOneLossTest, AxesOverlapAndRecomputeDoNotMatter) {
  References references;
  for (const int stage : {1, 2, 3}) {
    for (const char* fields :
         {"overlap { all_gather: false reduce_scatter: false }", "gradient_bucket_bytes: 1", "collective: 'direct'"}) {
      TinyPlan plan = PlanOf("x2 y2 z2 data2", Zero(stage) + fields);
      plan.exact = true;
      plan.recompute = stage == 2;
      ExpectLikeOneRank(plan, references);
    }
  }
  for (const char* family : {"llama", "bert"}) {
    TinyPlan plan = PlanOf("data2", Zero(2));
    plan.family = family;
    plan.exact = true;
    ExpectLikeOneRank(plan, references);
  }
}

struct Saved {
  const char* mesh;
  std::string fields;
};

// What one plan has saved the next goes on with. All must train to the same bits; `half` as in TinyPlan.
void ExpectCheckpointsGoRound(const std::string& name, const std::string& half, const std::vector<Saved>& plans) {
  const auto plan_of = [&](const Saved& saved) {
    TinyPlan plan = PlanOf(saved.mesh, saved.fields);
    plan.exact = true;
    plan.half = half;
    plan.bf16 = half.empty();
    return plan;
  };
  TinyPlan one = OneCopy(plan_of(plans[0]));
  const auto expected = TrainTiny(one);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (size_t i = 0; i < plans.size(); ++i) {
    RunOptions options;
    options.checkpoint.directory = absl::StrCat(::testing::TempDir(), "/zero_", name, i);
    std::filesystem::remove_all(options.checkpoint.directory);
    for (const size_t which : {i, (i + 1) % plans.size()}) {
      const TinyPlan plan = plan_of(plans[which]);
      options.steps = which == i ? kSteps / 2 : 0;
      options.resume = which != i;
      const auto outcome = TrainTiny(plan, options);
      ASSERT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
      if (which == i) continue;
      ASSERT_EQ(outcome->losses.size(), kSteps / 2);
      for (int s = 0; s < kSteps / 2; ++s) EXPECT_EQ(outcome->losses[s], expected->losses[kSteps / 2 + s]) << s;
      EXPECT_TRUE(outcome->weights == expected->weights) << plan.Name() << " after " << plan_of(plans[i]).Name();
    }
  }
}

constexpr char kOffload[] = "offload { optimizer: true bucket_elements: 1500 buckets_per_reduce: 2 } ";

TEST(ZeroOneLossTest, CheckpointsLoadUnderAnyOtherPlan) {
  ExpectCheckpointsGoRound("bf16", "",
                           {{"data4", Zero(1, 2)},
                            {"data2 pipe2", Zero(2)},
                            {"data2", Zero(1) + kOffload},
                            {"data4 pipe2", Zero(3, 2)},
                            {"data4", Zero(2, 2) + kOffload},
                            {"pipe2", ""},
                            {"data2", Zero(1)}});
}

// Axes that cut layers change bits, so these are among themselves.
TEST(ZeroOneLossTest, CheckpointsLoadAcrossStagesBesideOtherAxes) {
  ExpectCheckpointsGoRound("x", "",
                           {{"x2 data2", Zero(1)}, {"x2 data4", Zero(2, 2)}, {"x2 pipe2", ""}, {"x2 data2", Zero(3)}});
  ExpectCheckpointsGoRound("z", "",
                           {{"z2 data2", Zero(1)}, {"z2", ""}, {"z2 pipe2 data2", Zero(2)}, {"z2 data2", kOffload}});
}

// The scale and when it was last changed are in the checkpoint too.
TEST(ZeroOneLossTest, CheckpointsLoadAcrossStagesWithLossScaling) {
  ExpectCheckpointsGoRound("fp16", "fp16",
                           {{"data2", Zero(1)},
                            {"data2 pipe2", Zero(2) + kOffload},
                            {"pipe2", ""},
                            {"data4", Zero(1, 2) + kOffload},
                            {"data2", Zero(3)}});
}

TEST(ZeroOneLossTest, WhatCannotBeIsRefusedByName) {
  struct Case {
    const char* mesh;
    std::string fields;
    const char* message;
    const char* schedule = "1f1b";
  };
  for (const Case& c :
       {Case{"data4", Zero(1, 3), "a divisor of the 4 ranks of mesh axis data; nearest: 2 or 4"},
        {"data2 pipe2", Zero(2),
         "plan.zero.stage must be 0 or 1 with it, or set plan.schedule.freeze, or use a static schedule", "axonn"}}) {
    TinyPlan plan = PlanOf(c.mesh, c.fields, c.schedule);
    const absl::StatusOr<Program> program = CompileTiny(plan);
    ASSERT_FALSE(program.ok()) << plan.Name();
    EXPECT_NE(program.status().message().find(c.message), absl::string_view::npos) << program.status();
    EXPECT_EQ(program.status().message().find("weft."), absl::string_view::npos) << program.status();
  }
}

}  // namespace
}  // namespace weft
