// With bf16 gradients and moments, plans agree bit for bit, and losses stay close to those with fp32 gradients and
// moments.
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

Outcome Must(const TinyPlan& plan) {
  const absl::StatusOr<Outcome> outcome = TrainTiny(plan);
  EXPECT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
  return outcome.ok() ? *outcome : Outcome();
}

TinyPlan Small() {
  TinyPlan plan{.steps = 6, .layers = 2, .batch = 4};
  plan.precision = "compute: BF16 grads: BF16";
  return plan;
}

TEST(Bf16Gradients, PlansAgree) {
  const Outcome one = Must(Small());
  for (const char* schedule : {"1f1b", "zb-h1"}) {
    TinyPlan other = Small();
    other.pipe = 2;
    other.schedule = schedule;
    other.recompute = std::string(schedule) == "1f1b";
    ExpectSame(Must(other), one, other.Name());
  }
  // Exact sums do not depend on how they are split over ranks.
  TinyPlan exact = Small();
  exact.exact = true;
  const Outcome sum = Must(exact);
  exact.data = 2;
  ExpectSame(Must(exact), sum, exact.Name());
}

TEST(Bf16Gradients, TrainsAsWithFp32Gradients) {
  TinyPlan fp32 = Small();
  fp32.precision = "compute: BF16";
  const Outcome expected = Must(fp32);
  for (const char* mesh : {"pipe1", "x2 z2"}) {
    TinyPlan plan = Small();
    plan.mesh = mesh;
    plan.microbatch = 2;
    const Outcome outcome = Must(plan);
    ASSERT_EQ(outcome.losses.size(), expected.losses.size());
    EXPECT_LT(outcome.losses.back(), outcome.losses.front() - 0.5);
    // A bf16 gradient has only 8 bits of precision, so the tolerances are wide.
    for (size_t i = 0; i < outcome.losses.size(); ++i) {
      EXPECT_NEAR(outcome.losses[i], expected.losses[i], 0.02 * expected.losses[i]) << mesh << " step " << i;
      EXPECT_NEAR(outcome.norms[i], expected.norms[i], 0.05 * expected.norms[i]) << mesh << " step " << i;
    }
    EXPECT_NE(outcome.norms, expected.norms);
  }
}

TinyPlan WithMoments(const char* gradients) {
  TinyPlan plan = Small();
  plan.precision = absl::StrCat("compute: BF16 grads: ", gradients, " moments: BF16");
  return plan;
}

TEST(Bf16Moments, PlansAgree) {
  const Outcome one = Must(WithMoments("BF16"));
  TinyPlan piped = WithMoments("BF16");
  piped.pipe = 2;
  ExpectSame(Must(piped), one, piped.Name());
  // Plans also agree with moments in buckets on the host, and with moments sharded over replicas.
  TinyPlan offloaded = WithMoments("BF16");
  offloaded.plan_fields = "offload { optimizer: true bucket_elements: 3000 }";
  ExpectSame(Must(offloaded), one, offloaded.Name());
  TinyPlan replicas = WithMoments("FP32");
  replicas.data = 2;
  // Sharded norms are summed in another order, so clipping is off.
  replicas.clip = 0;
  const Outcome two = Must(replicas);
  replicas.plan_fields = "zero { stage: 1 }";
  EXPECT_EQ(Must(replicas).losses, two.losses);
}

TEST(Bf16Moments, TrainsAsWithFp32Moments) {
  TinyPlan fp32 = WithMoments("FP32");
  fp32.precision = "compute: BF16";
  const Outcome expected = Must(fp32), outcome = Must(WithMoments("FP32"));
  ASSERT_EQ(outcome.losses.size(), expected.losses.size());
  EXPECT_LT(outcome.losses.back(), outcome.losses.front() - 0.5);
  // The first loss is computed before any update, so it is the same.
  EXPECT_EQ(outcome.losses[0], expected.losses[0]);
  EXPECT_NE(outcome.losses, expected.losses);
  for (size_t i = 0; i < outcome.losses.size(); ++i) {
    EXPECT_NEAR(outcome.losses[i], expected.losses[i], 0.01 * expected.losses[i]) << "step " << i;
  }
}

}  // namespace
}  // namespace weft
