// ZeRO: whatever is sharded, over any number of data replicas, losses, norms and weights equal those of one rank: bit
// for bit under exact accumulation, within 1e-5 with in-order accumulation. With in-order accumulation, stage 1 equals
// unsharded states bit for bit, because it scatters the sum that unsharded states all-reduce.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/e2e/agreement.h"
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
  Outcomes references;
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
  Outcomes references;
  for (const std::string& fields : StagesAndGroups(std::string(GetParam()).find("data4") != std::string::npos)) {
    ExpectLikeOneRank(PlanOf(GetParam(), fields), references);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Meshes,
                         testing::Values("data2", "data4", "data2 pipe2", "pipe2 data4", "z2 data2", "x2 data4"));

// With in-order accumulation, a reduce-scatter sums a range exactly as the all-reduce does, for all types. Only
// vectors, which z does not shard, are summed in another order: first over data, then over z.
TEST(ZeroOneLossTest, StageOneInOrderIsBitForBitStageZero) {
  for (const char* mesh : {"data4", "data2 pipe2", "z2 data2"}) {
    for (const bool bf16 : {false, true}) {
      TinyPlan plan = PlanOf(mesh, "");
      plan.bf16 = bf16;
      const bool z = std::string(mesh).find('z') != std::string::npos;
      ExpectShardedLikeWhole(plan, Zero(1), !z ? 0 : bf16 ? 1e-2 : 1e-5);
    }
  }
}

// Covers replicas of stages, several stages per rank, split backwards, and orders chosen at run time, most of them with
// a tied table.
TEST(ZeroOneLossTest, SchedulesTrainLikeOneRank) {
  struct Case {
    const char* schedule;
    const char* mesh;
    std::string fields;
    const char* schedule_fields = "";
    bool tied = true;
  };
  Outcomes references;
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
  Outcomes references;
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

// Checks that each plan resumes the checkpoint of the plan before it and trains to the bits of one rank. `half` as in
// TinyPlan.
void ExpectCheckpointsResume(const std::string& name, const std::string& half, const std::vector<Saved>& saved) {
  std::vector<TinyPlan> plans;
  for (const Saved& one : saved) {
    plans.push_back(PlanOf(one.mesh, one.fields));
    plans.back().exact = true;
    plans.back().half = half;
    plans.back().bf16 = half.empty();
  }
  ExpectCheckpointsGoRound("zero_" + name, plans);
}

constexpr char kOffload[] = "offload { optimizer: true bucket_elements: 1500 buckets_per_reduce: 2 } ";

TEST(ZeroOneLossTest, CheckpointsLoadUnderAnyOtherPlan) {
  ExpectCheckpointsResume("bf16", "",
                          {{"data4", Zero(1, 2)},
                           {"data2 pipe2", Zero(2)},
                           {"data2", Zero(1) + kOffload},
                           {"data4 pipe2", Zero(3, 2)},
                           {"data4", Zero(2, 2) + kOffload},
                           {"pipe2", ""},
                           {"data2", Zero(1)}});
}

// Axes that shard layers change bits, so the reference has the same sizes of these axes.
TEST(ZeroOneLossTest, CheckpointsLoadAcrossStagesBesideOtherAxes) {
  ExpectCheckpointsResume("x", "",
                          {{"x2 data2", Zero(1)}, {"x2 data4", Zero(2, 2)}, {"x2 pipe2", ""}, {"x2 data2", Zero(3)}});
  ExpectCheckpointsResume("z", "",
                          {{"z2 data2", Zero(1)}, {"z2", ""}, {"z2 pipe2 data2", Zero(2)}, {"z2 data2", kOffload}});
}

// The loss scale and the step of its last change are in the checkpoint too.
TEST(ZeroOneLossTest, CheckpointsLoadAcrossStagesWithLossScaling) {
  ExpectCheckpointsResume("fp16", "fp16",
                          {{"data2", Zero(1)},
                           {"data2 pipe2", Zero(2) + kOffload},
                           {"pipe2", ""},
                           {"data4", Zero(1, 2) + kOffload},
                           {"data2", Zero(3)}});
}

TEST(ZeroOneLossTest, RefusesImpossiblePlansByName) {
  struct Case {
    const char* mesh;
    std::string fields;
    const char* message;
    const char* schedule = "1f1b";
  };
  for (const Case& c :
       {Case{"data4", Zero(1, 3), "a divisor of the 4 ranks of mesh axis data; nearest: 2 or 4"},
        {"data2 pipe2", Zero(2),
         "plan.zero.stage must be 0 or 1 with this schedule; or set plan.schedule.freeze, or use a static schedule",
         "axonn"}}) {
    TinyPlan plan = PlanOf(c.mesh, c.fields, c.schedule);
    const absl::StatusOr<Program> program = CompileTiny(plan);
    ASSERT_FALSE(program.ok()) << plan.Name();
    EXPECT_NE(program.status().message().find(c.message), absl::string_view::npos) << program.status();
    EXPECT_EQ(program.status().message().find("weft."), absl::string_view::npos) << program.status();
  }
}

}  // namespace
}  // namespace weft
