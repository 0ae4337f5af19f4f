// Products in TF32: plans agree bit for bit, and training is the same as in fp32 except for the rounding of factors.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/run/run.h"
#include "gtest/gtest.h"
#include "tests/e2e/agreement.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

TinyPlan Small() {
  TinyPlan plan{.steps = 6, .layers = 4, .batch = 4};
  plan.precision = "compute: TF32";
  return plan;
}

TEST(Tf32, PlansAgree) {
  for (const char* family : {"gpt2", "llama"}) {
    TinyPlan plan = Small();
    plan.family = family;
    const Outcome one = Must(Train(plan), plan.Name());
    ASSERT_EQ(one.losses.size(), 6u);
    std::vector<TinyPlan> others;
    for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "zb-v"}) {
      others.push_back(plan);
      others.back().pipe = 2;
      others.back().schedule = schedule;
      others.back().recompute = std::string(schedule) == "1f1b";
    }
    others.push_back(plan);
    others.back().plan_fields = "offload { optimizer: true bucket_elements: 3000 }";
    for (const TinyPlan& other : others) {
      for (const int threads : {1, 3}) {
        if (threads > 1 && other.pipe > 1 && other.schedule != "zb-v") continue;
        exec::RunOptions options;
        options.threads_per_rank = threads;
        ExpectSame(Must(Train(other, options), other.Name()), one, absl::StrCat(other.Name(), ", ", threads));
      }
    }
  }
}

// Exact sums do not depend on how they are split over ranks.
TEST(Tf32, ReplicasAgreeUnderExactAccumulation) {
  TinyPlan plan = Small();
  plan.exact = true;
  const Outcome one = Must(Train(plan), plan.Name());
  for (const char* fields : {"", "zero { stage: 3 }"}) {
    TinyPlan other = plan;
    other.data = 2;
    other.pipe = 2;
    other.plan_fields = fields;
    ExpectSame(Must(Train(other), other.Name()), one, absl::StrCat(other.Name(), " ", fields));
  }
}

// A TF32 factor has 11 bits, like fp16, so the tolerance is the one for half precision in loss_scale_test.
TEST(Tf32, FollowsSinglePrecision) {
  TinyPlan plan{.steps = 50, .layers = 2, .lr = "peak: 0.003 warmup_steps: 3 decay: 'cosine' min: 0.0003"};
  const Outcome single = Must(Train(plan), "fp32");
  EXPECT_LT(single.losses.back(), single.losses.front() - 2);
  plan.precision = "compute: TF32";
  const Outcome outcome = Must(Train(plan), "tf32");
  ASSERT_EQ(outcome.losses.size(), 50u);
  double largest = 0;
  for (size_t i = 0; i < 50; ++i) {
    EXPECT_NEAR(outcome.losses[i], single.losses[i], 1e-3 * single.losses[i]) << "step " << i;
    largest = std::max(largest, std::abs(outcome.losses[i] / single.losses[i] - 1));
  }
  // The first loss already differs, because its sums are different.
  EXPECT_NE(outcome.losses.front(), single.losses.front());
  RecordProperty("largest_relative_difference", absl::StrCat(largest));
}

// The parts of a sharded product are rounded like the whole product; only the order of sums differs.
TEST(Tf32, TensorParallelPlansComeClose) {
  TinyPlan plan = Small();
  plan.microbatch = 2;
  plan.mesh = "pipe1";
  ExpectLossesClose(plan, {"x2", "y2", "z2", "x2 y2 pipe2"}, 1e-3);
}

// Everything that is stored is fp32, so a plan in TF32 resumes from a checkpoint of a plan in fp32.
TEST(Tf32, CheckpointsAreThoseOfSinglePrecision) {
  TinyPlan plan = Small(), single = Small();
  single.precision = "";
  const std::string directory = ::testing::TempDir() + "/tf32_cross";
  exec::RunOptions options;
  options.checkpoint.directory = directory;
  options.steps = 3;
  const Outcome first = Must(Train(single, options), "fp32");
  options.steps = 0;
  options.resume = true;
  const Outcome second = Must(Train(plan, options), "tf32");
  ASSERT_EQ(second.losses.size(), 3u);
  EXPECT_LT(second.losses.back(), first.losses.front());
}

}  // namespace
}  // namespace weft
