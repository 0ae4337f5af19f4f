// N plans, one loss, for model families and activations other than GPT-2's: losses, gradient norms and weights equal
// those of one rank. With in-order accumulation they are equal bit for bit if a stage has one replica. Under exact
// accumulation they are always equal bit for bit.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

class FamiliesOneLossTest : public testing::TestWithParam<std::string> {
 protected:
  TinyPlan Base(bool exact) const {
    TinyPlan plan{.pipe = 1, .schedule = "gpipe", .exact = exact};
    plan.steps = 4;
    plan.layers = 6;
    plan.family = GetParam();
    return plan;
  }
  Outcome Reference(bool exact) const {
    const absl::StatusOr<Outcome> outcome = TrainTiny(Base(exact));
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? *outcome : Outcome();
  }
};

TEST_P(FamiliesOneLossTest, InOrder) {
  const Outcome reference = Reference(false);
  ASSERT_FALSE(reference.losses.empty());
  EXPECT_LT(reference.losses.back(), reference.losses.front());
  struct Case {
    int pipe;
    std::string schedule, fields;
    bool recompute;
  };
  const std::vector<Case> cases = {
      {2, "1f1b", "", false}, {4, "1f1b", "", true},  {2, "interleaved", "virtual_stages: 2", false},
      {4, "zb-h1", "", true}, {2, "zb-v", "", false}, {2, "axonn", "", false}};
  for (const Case& c : cases) {
    TinyPlan plan = Base(false);
    plan.pipe = c.pipe;
    plan.schedule = c.schedule;
    plan.schedule_fields = c.fields;
    plan.recompute = c.recompute;
    const absl::StatusOr<Outcome> outcome = TrainTiny(plan);
    ASSERT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
    ExpectSame(*outcome, reference, plan.Name());
  }
}

// Plans with data replicas, with replicas of stages, with forwards of two microbatches (twice the rows), and with pairs
// of a forward and a backward have the bits of one rank.
TEST_P(FamiliesOneLossTest, Exact) {
  const Outcome reference = Reference(true);
  ASSERT_FALSE(reference.losses.empty());
  struct Case {
    int pipe, data;
    std::string schedule, fields;
  };
  const std::vector<Case> cases = {{1, 4, "gpipe", ""},
                                   {2, 2, "1f1b", ""},
                                   {2, 1, "chimera", "scaling: FORWARD_DOUBLING"},
                                   {2, 1, "dualpipe", ""},
                                   {2, 1, "dualpipev", ""}};
  for (const Case& c : cases) {
    TinyPlan plan = Base(true);
    plan.pipe = c.pipe;
    plan.data = c.data;
    plan.schedule = c.schedule;
    plan.schedule_fields = c.fields;
    const absl::StatusOr<Outcome> outcome = TrainTiny(plan);
    ASSERT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
    ExpectSame(*outcome, reference, plan.Name());
  }
}

// Rounding to bf16 is the same under every plan too.
TEST_P(FamiliesOneLossTest, HalfPrecision) {
  TinyPlan plan = Base(false);
  plan.bf16 = true;
  const absl::StatusOr<Outcome> reference = TrainTiny(plan);
  ASSERT_TRUE(reference.ok()) << reference.status();
  plan.pipe = 2;
  plan.schedule = "zb-h1";
  const absl::StatusOr<Outcome> outcome = TrainTiny(plan);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  ExpectSame(*outcome, *reference, plan.Name());
}

INSTANTIATE_TEST_SUITE_P(Families, FamiliesOneLossTest, testing::Values("llama", "mistral", "qwen2", "bert", "relu2"),
                         [](const testing::TestParamInfo<std::string>& info) { return info.param; });

}  // namespace
}  // namespace weft
