// Collectives that overlap computation (docs/overlap.md) give the same bits as blocking ones, on any mesh and schedule.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/run/run.h"
#include "gtest/gtest.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

constexpr char kOff[] = "overlap { all_reduce: false reduce_scatter: false all_gather: false }";

// Returns a plan with batches of eight sequences in microbatches of two.
TinyPlan PlanOn(const std::string& mesh) {
  return {.steps = 3, .layers = 2, .batch = 8, .microbatch = 2, .mesh = mesh};
}

void ExpectOverlapChangesNoBit(TinyPlan plan, const std::vector<std::string>& overlaps) {
  const std::string fields = plan.plan_fields;
  plan.plan_fields = absl::StrCat(fields, " ", kOff);
  const auto blocking = CompileTiny(plan);
  ASSERT_TRUE(blocking.ok()) << plan.Name() << ": " << blocking.status();
  const auto expected = Train(*blocking);
  ASSERT_TRUE(expected.ok()) << plan.Name() << ": " << expected.status();
  for (const std::string& overlap : overlaps) {
    plan.plan_fields = absl::StrCat(fields, " ", overlap);
    const std::string what = absl::StrCat(plan.Name(), " ", overlap);
    const auto program = CompileTiny(plan);
    ASSERT_TRUE(program.ok()) << what << ": " << program.status();
    EXPECT_NE(program->segments(0).SerializeAsString() == blocking->segments(0).SerializeAsString() &&
                  program->segments(1).SerializeAsString() == blocking->segments(1).SerializeAsString(),
              true)
        << what << " is the same program";
    const auto result = Train(*program);
    ASSERT_TRUE(result.ok()) << what << ": " << result.status();
    ExpectSame(OutcomeOf(*result), OutcomeOf(*expected), what);
  }
}

class Meshes : public testing::TestWithParam<const char*> {};

TEST_P(Meshes, OverlapChangesNoBit) {
  ExpectOverlapChangesNoBit(PlanOn(GetParam()), {"", "overlap { gathered_cache_bytes: 20000 }"});
}

INSTANTIATE_TEST_SUITE_P(Overlap, Meshes,
                         testing::Values("x2 y2 z2", "z2", "z2 data2", "x2 z2 pipe2", "y2 z2 pipe2", "pipe2 z2 data2"));

TEST(Overlap, EachAloneChangesNoBit) {
  ExpectOverlapChangesNoBit(PlanOn("x2 y2 z2"), {"overlap { reduce_scatter: false all_gather: false }",
                                                 "overlap { all_reduce: false all_gather: false }",
                                                 "overlap { all_reduce: false reduce_scatter: false }",
                                                 absl::StrCat("overlap { all_reduce: false reduce_scatter: false "
                                                              "all_gather: false gathered_cache_bytes: 1000000 }")});
}

TEST(Overlap, ChangesNoBitOfOtherPlans) {
  std::vector<TinyPlan> plans;
  auto add = [&](const char* mesh) -> TinyPlan& { return plans.emplace_back(PlanOn(mesh)); };
  add("x2 z2").recompute = true;
  add("x2 z2").exact = true;
  add("z2 pipe2").schedule = "zb-h1";
  add("z2 pipe2").schedule = "gpipe";
  add("x2 z2 pipe2").schedule = "chimera";
  add("z2 pipe2").schedule = "interleaved";
  add("z2 pipe2").schedule = "dualpipev";
  add("x2 z2").plan_fields = "sequence_parallel: true";
  add("data2").plan_fields = "zero { stage: 3 }";
  add("z2 data2").plan_fields = "zero { stage: 3 }";
  for (const TinyPlan& plan : plans) ExpectOverlapChangesNoBit(plan, {"", "overlap { gathered_cache_bytes: 1000000 }"});
}

int CountSteps(const Program& program, Kernel kernel, const char* segments) {
  int count = 0;
  for (const Segment& segment : program.segments()) {
    if (!absl::StrContains(segment.name(), segments)) continue;
    for (const Step& step : segment.steps()) count += step.kernel() == kernel;
  }
  return count;
}

// Checks what plan.overlap changes in a program: detached steps, and weights that the backward does not gather again.
TEST(Overlap, DetachedStepsAndKeptWeights) {
  TinyPlan plan = PlanOn("z2");
  plan.plan_fields = kOff;
  const auto blocking = CompileTiny(plan);
  ASSERT_TRUE(blocking.ok()) << blocking.status();
  plan.plan_fields = "overlap { gathered_cache_bytes: 1000000 }";
  const auto beside = CompileTiny(plan);
  ASSERT_TRUE(beside.ok()) << beside.status();
  auto detached = [](const Program& program) {
    int count = 0;
    for (const Segment& segment : program.segments()) {
      for (const Step& step : segment.steps()) count += step.detached();
    }
    return count;
  };
  EXPECT_EQ(detached(*blocking), 0);
  EXPECT_EQ(detached(*beside), CountSteps(*beside, GROUP_REDUCE_SCATTER, "backward"));
  EXPECT_GT(detached(*beside), 0);
  // With the cache, only the forward gathers weights.
  EXPECT_GT(CountSteps(*blocking, GROUP_ALL_GATHER, "backward"), 0);
  EXPECT_EQ(CountSteps(*beside, GROUP_ALL_GATHER, "backward"), 0);
  EXPECT_EQ(CountSteps(*beside, GROUP_ALL_GATHER, "forward"), CountSteps(*blocking, GROUP_ALL_GATHER, "forward"));
  auto waits = [](const Program& program) {
    int count = 0;
    for (const Action& action : program.templates(0).body()) {
      for (const Dependency& dep : action.deps()) count += dep.detached();
    }
    return count;
  };
  EXPECT_EQ(waits(*blocking), 0);
  EXPECT_GT(waits(*beside), 0);
}

}  // namespace
}  // namespace weft
