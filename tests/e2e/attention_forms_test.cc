// Fused attention and attention in several ops, dropout that is drawn again and dropout with kept masks, and every
// recomputation have one loss. Within a form all bits are the same; between forms only rounding differs.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

constexpr char kOps[] = "attention: MATERIALIZED", kMasks[] = "attention: MATERIALIZED dropout_masks: true";

class AttentionFormsTest : public testing::TestWithParam<std::string> {
 protected:
  TinyPlan Base(const std::string& fields) const {
    TinyPlan plan;
    plan.steps = 4;
    plan.layers = 4;
    plan.family = GetParam();
    plan.plan_fields = fields;
    return plan;
  }
  static Outcome Trained(const TinyPlan& plan) {
    const absl::StatusOr<Outcome> outcome = TrainTiny(plan);
    EXPECT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
    return outcome.ok() ? *outcome : Outcome();
  }
};

TEST_P(AttentionFormsTest, FormsAgree) {
  const Outcome fused = Trained(Base(""));
  ASSERT_EQ(fused.losses.size(), 4);
  EXPECT_LT(fused.losses.back(), fused.losses.front());
  const Outcome ops = Trained(Base(kOps));
  ExpectClose(ops, fused, "ops");
  // Rounding must differ; otherwise the plan field had no effect.
  EXPECT_NE(ops.losses, fused.losses);
  TinyPlan wide = Base("");
  wide.fp64 = true;
  const Outcome fused64 = Trained(wide);
  wide.plan_fields = kMasks;
  const Outcome ops64 = Trained(wide);
  ASSERT_EQ(ops64.losses.size(), 4);
  // Both forms drop the same elements: any other choice would differ far more than rounding.
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(ops64.losses[i], fused64.losses[i], 1e-12 * fused64.losses[i]) << i;
  ExpectSame(Trained(Base("dropout_masks: true")), fused, "masks of a fused form");
}

TEST_P(AttentionFormsTest, WithinAFormEveryBit) {
  const Outcome reference = Trained(Base(kOps));
  ASSERT_EQ(reference.losses.size(), 4);
  struct Case {
    std::string fields, recompute, schedule = "1f1b", schedule_fields = "";
    int pipe = 1;
  };
  const std::vector<Case> cases = {
      {kMasks, ""},
      {kOps, "mode: SELECTIVE"},
      {kMasks, "mode: SELECTIVE"},
      {kMasks, "mode: FULL"},
      {kMasks, "mode: EVERY every: 2", "1f1b", "", 2},
      {kMasks, "mode: SELECTIVE", "1f1b", "", 4},
      {kMasks, "mode: SELECTIVE", "zb-h1", "", 2},
      {kMasks, "", "interleaved", "virtual_stages: 2", 2},
  };
  for (const Case& c : cases) {
    TinyPlan plan = Base(c.fields);
    plan.recompute_fields = c.recompute;
    plan.schedule = c.schedule;
    plan.schedule_fields = c.schedule_fields;
    plan.pipe = c.pipe;
    ExpectSame(Trained(plan), reference, plan.Name());
  }
}

// Under exact accumulation, plans with replicas, with forwards of two microbatches, and with pairs of a forward and a
// backward have the bits of one rank.
TEST_P(AttentionFormsTest, Exact) {
  TinyPlan one = Base(kOps);
  one.exact = true;
  const Outcome reference = Trained(one);
  ASSERT_EQ(reference.losses.size(), 4);
  struct Case {
    int pipe, data;
    std::string schedule, fields;
  };
  for (const Case& c :
       std::vector<Case>{{1, 2, "1f1b", ""}, {2, 1, "chimera", "scaling: FORWARD_DOUBLING"}, {2, 1, "dualpipev", ""}}) {
    TinyPlan plan = Base(kMasks);
    plan.exact = true;
    plan.pipe = c.pipe;
    plan.data = c.data;
    plan.schedule = c.schedule;
    plan.schedule_fields = c.fields;
    plan.recompute_fields = "mode: SELECTIVE";
    ExpectSame(Trained(plan), reference, plan.Name());
  }
}

// Uses row counts at which norms, sums and targets do not fill multiples of 64 bytes. Then the two microbatches of one
// forward are not contiguous.
TEST_P(AttentionFormsTest, TwoUnevenMicrobatchesAtOnce) {
  struct Case {
    const char *mesh, *fields, *recompute;
    int sequence, microbatch;
  };
  for (const Case& c : {Case{"pipe2", "", "mode: NONE", 24, 1}, Case{"pipe2", kMasks, "mode: NONE", 31, 1},
                        Case{"pipe2", kOps, "mode: SELECTIVE", 12, 1}, Case{"pipe2", "", "mode: FULL", 20, 1},
                        Case{"x2 pipe2", "", "mode: NONE", 24, 1}, Case{"z2 pipe2", kMasks, "mode: NONE", 20, 2}}) {
    TinyPlan plan = Base(c.fields);
    plan.exact = true;
    plan.mesh = c.mesh;
    plan.sequence = c.sequence;
    plan.microbatch = c.microbatch;
    plan.batch = 8 * c.microbatch;
    plan.recompute_fields = c.recompute;
    plan.schedule = "chimera";
    const Outcome apart = Trained(plan);
    ASSERT_EQ(apart.losses.size(), 4);
    plan.schedule_fields = "scaling: FORWARD_DOUBLING";
    ExpectSame(Trained(plan), apart, plan.Name());
  }
}

// If heads are sharded over x, the same elements are dropped, but sums have another order.
TEST_P(AttentionFormsTest, TensorParallel) {
  TinyPlan one = Base(kMasks);
  one.microbatch = 2;
  const Outcome reference = Trained(one);
  ASSERT_EQ(reference.losses.size(), 4);
  for (const char* mesh : {"x2", "x2 pipe2", "x2 y2", "x2 z2"}) {
    for (const bool rows : {false, true}) {
      if (rows && absl::string_view(mesh).find('y') != absl::string_view::npos) continue;
      TinyPlan plan = one;
      plan.mesh = mesh;
      plan.plan_fields = absl::StrCat(kMasks, rows ? " sequence_parallel: true" : "");
      const Outcome kept = Trained(plan);
      ExpectClose(kept, reference, plan.Name());
      plan.recompute_fields = "mode: SELECTIVE";
      ExpectSame(Trained(plan), kept, plan.Name());
      plan.recompute_fields = "mode: FULL";
      ExpectSame(Trained(plan), kept, plan.Name());
      plan.recompute_fields = "";
      plan.plan_fields = absl::StrCat(kOps, rows ? " sequence_parallel: true" : "");
      ExpectSame(Trained(plan), kept, plan.Name());
    }
  }
}

TEST_P(AttentionFormsTest, HalfPrecision) {
  TinyPlan plan = Base(kMasks);
  plan.bf16 = true;
  const Outcome kept = Trained(plan);
  plan.pipe = 2;
  plan.recompute_fields = "mode: SELECTIVE";
  ExpectSame(Trained(plan), kept, plan.Name());
}

INSTANTIATE_TEST_SUITE_P(Families, AttentionFormsTest, testing::Values("gpt2", "llama", "mistral", "bert"),
                         [](const testing::TestParamInfo<std::string>& info) { return info.param; });

TEST(AttentionForms, SelectiveNeedsOpsOfItsOwn) {
  TinyPlan plan;
  plan.recompute_fields = "mode: SELECTIVE";
  const absl::StatusOr<Program> program = CompileTiny(plan);
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.status().message().find("SELECTIVE needs plan.attention = MATERIALIZED"), absl::string_view::npos)
      << program.status();
}

}  // namespace
}  // namespace weft
