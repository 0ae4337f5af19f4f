// The checks of agreement.h fail for plans that do not agree.
#include "tests/e2e/agreement.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Runs `checks` and returns their failure messages, without failing this test.
template <typename Checks>
std::string FailuresOf(const Checks& checks) {
  testing::TestPartResultArray results;
  {
    const testing::ScopedFakeTestPartResultReporter caught(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    checks();
  }
  std::string failures;
  for (int i = 0; i < results.size(); ++i) absl::StrAppend(&failures, results.GetTestPartResult(i).message(), "\n");
  return failures;
}

TinyPlan PlanOf(const std::string& mesh, bool exact) {
  TinyPlan plan{.steps = 4, .layers = 1, .batch = 6, .mesh = mesh};
  plan.exact = exact;
  return plan;
}

TinyPlan NoPlan() {
  TinyPlan plan = PlanOf("pipe1", false);
  plan.schedule = "none";
  return plan;
}

TEST(Must, FailsOfAnError) {
  Outcome outcome;
  EXPECT_THAT(FailuresOf([&] { outcome = Must(absl::InternalError("broken"), "this plan"); }),
              AllOf(HasSubstr("this plan"), HasSubstr("broken")));
  EXPECT_TRUE(outcome.losses.empty());
  EXPECT_EQ(FailuresOf([&] { outcome = Must(Train(PlanOf("pipe1", false)), "a plan"); }), "");
  EXPECT_EQ(outcome.losses.size(), 4u);
}

TEST(OneCopy, OnlyAxesThatCutLayersStay) {
  TinyPlan plan = PlanOf("x2 data3 y4 pipe2 z2", true);
  plan.schedule = "interleaved";
  plan.schedule_fields = "virtual_stages: 2";
  plan.plan_fields = "zero { stage: 1 }";
  plan.clip = 0.25;
  const TinyPlan one = OneCopy(plan);
  EXPECT_EQ(one.Name(), "gpt2 pipe1 x2 y4 z2 1f1b batch 6 clip 0.25 exact");
  EXPECT_EQ(one.layers, 1);
  EXPECT_EQ(one.steps, 4);
  EXPECT_EQ(OneCopy(PlanOf("", false)).mesh, "pipe1");
}

TEST(Outcomes, TrainsEachPlanOnce) {
  Outcomes outcomes;
  TinyPlan plan = PlanOf("pipe1", false);
  const Outcome& first = outcomes.Get(plan);
  ExpectSame(first, Must(Train(plan), "again"), "again");
  EXPECT_EQ(&outcomes.Get(plan), &first);
  plan.layers = 2;
  EXPECT_NE(outcomes.Get(plan).weights.size(), first.weights.size());
  EXPECT_THAT(FailuresOf([&] { outcomes.Get(NoPlan()); }), HasSubstr("unknown schedule"));
  EXPECT_EQ(FailuresOf([&] { outcomes.Get(NoPlan()); }), "");
}

TEST(ExpectLikeOneRank, ExactPlansInAllBitsOthersWithinRounding) {
  for (const bool exact : {false, true}) {
    const TinyPlan plan = PlanOf("data3", exact);
    Outcomes references;
    EXPECT_EQ(FailuresOf([&] { ExpectLikeOneRank(plan, references); }), "");
    // Outcomes finds a reference by the plan's name, which shows neither microbatch size nor dropout. So two wrong
    // references can take the place of the right one: one that sums in another order, and one of another training run.
    TinyPlan rounded = OneCopy(plan), other = rounded;
    rounded.microbatch = 3;
    Outcomes of_rounded;
    of_rounded.Get(rounded);
    const std::string failures = FailuresOf([&] { ExpectLikeOneRank(plan, of_rounded); });
    if (exact) {
      EXPECT_THAT(failures, HasSubstr("first difference in step"));
    } else {
      EXPECT_EQ(failures, "");
    }
    other.dropout = 0;
    Outcomes of_other;
    of_other.Get(other);
    EXPECT_THAT(FailuresOf([&] { ExpectLikeOneRank(plan, of_other); }),
                AllOf(HasSubstr("gpt2 data3"), HasSubstr("losses")));
  }
}

TEST(ExpectLikeOneRank, ClippingIsActive) {
  TinyPlan plan = PlanOf("data3", true);
  plan.clip = 1000;
  Outcomes references;
  EXPECT_THAT(FailuresOf([&] { ExpectLikeOneRank(plan, references); }), HasSubstr("(plan.clip)"));
  EXPECT_THAT(FailuresOf([&] { ExpectLikeOneRank(NoPlan(), references); }), HasSubstr("unknown schedule"));
}

// The direct algorithm sums whole buffers, so sharded states change no bit. A ring sums parts, whose boundaries move if
// states are sharded, so the results agree only within a tolerance.
TEST(ExpectShardedLikeWhole, InAllBitsOrWithinATolerance) {
  TinyPlan plan = PlanOf("data3", false);
  plan.plan_fields = "collective: 'direct' ";
  EXPECT_EQ(FailuresOf([&] { ExpectShardedLikeWhole(plan, "zero { stage: 1 }", 0); }), "");
  plan.plan_fields = "collective: 'ring' ";
  EXPECT_THAT(FailuresOf([&] { ExpectShardedLikeWhole(plan, "zero { stage: 1 }", 0); }),
              AllOf(HasSubstr("stage: 1"), HasSubstr("tensor ")));
  EXPECT_EQ(FailuresOf([&] { ExpectShardedLikeWhole(plan, "zero { stage: 1 }", 1e-5); }), "");
  EXPECT_THAT(FailuresOf([&] { ExpectShardedLikeWhole(plan, "zero { stage: 1 }", 1e-15); }), HasSubstr("losses"));
  EXPECT_THAT(FailuresOf([&] { ExpectShardedLikeWhole(plan, "zero { stage: 4 }", 1e-5); }), HasSubstr("zero.stage"));
}

TEST(ExpectCheckpointsGoRound, InAllBits) {
  EXPECT_EQ(FailuresOf([] {
              ExpectCheckpointsGoRound("exact", {PlanOf("data3", true), PlanOf("data2", true), PlanOf("pipe1", true)});
            }),
            "");
  EXPECT_THAT(
      FailuresOf([] { ExpectCheckpointsGoRound("in_order", {PlanOf("data3", false), PlanOf("data2", false)}); }),
      AllOf(HasSubstr("outcome->losses[s]"), HasSubstr("gpt2 data2 1f1b batch 6 after gpt2 data3"),
            HasSubstr("gpt2 data3 1f1b batch 6 after gpt2 data2")));
}

TEST(ExpectLossesClose, OnEachMesh) {
  const TinyPlan plan = PlanOf("pipe1", false);
  EXPECT_EQ(FailuresOf([&] { ExpectLossesClose(plan, {"x2", "data3"}, 1e-5); }), "");
  EXPECT_THAT(FailuresOf([&] { ExpectLossesClose(plan, {"pipe1", "x2"}, 0); }),
              AllOf(HasSubstr("x2 step"), Not(HasSubstr("pipe1 step"))));
  EXPECT_THAT(FailuresOf([&] { ExpectLossesClose(plan, {"data7"}, 1e-5); }), HasSubstr("data7"));
}

}  // namespace
}  // namespace weft
