// Fixed and dynamic loss scaling, and training in half precision.
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "tests/e2e/agreement.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

// A loss scale that is a power of two changes only exponents.
TEST(LossScaleTest, AFixedPowerOfTwoChangesNoBit) {
  const TinyPlan small{.steps = 5, .layers = 2, .batch = 4};
  std::vector<TinyPlan> plans;
  for (double clip : {0.0, 0.5}) {
    for (const char* optimizer : {"adamw {}", "sgd { momentum: 0.9 weight_decay: 0.1 }"}) {
      TinyPlan plan = small;
      plan.clip = clip;
      plan.optimizer = optimizer;
      plans.push_back(plan);
    }
  }
  for (const char* mesh : {"pipe2", "data2", "x2", "z2", "x2 data2 pipe2"}) {
    TinyPlan plan = small;
    plan.mesh = mesh;
    plan.microbatch = 2;
    plan.recompute = std::string(mesh) == "pipe2";
    plans.push_back(plan);
  }
  plans.push_back(small);
  plans.back().data = 2;
  plans.back().plan_fields = "zero { stage: 3 }";
  plans.push_back(small);
  plans.back().pipe = 2;
  plans.back().schedule = "zb-h1";
  for (const TinyPlan& plan : plans) {
    SCOPED_TRACE(plan.Name());
    TinyPlan scaled = plan;
    absl::StrAppend(&scaled.plan_fields, " loss_scale { fixed: 4096 }");
    const auto result = Train(scaled);
    ExpectSame(Must(result, "scaled"), Must(Train(plan), "plain"), "scaled");
    if (!result.ok()) continue;
    for (const RunStep& step : result->report.steps()) {
      EXPECT_EQ(step.loss_scale(), 4096);
      EXPECT_FALSE(step.skipped());
    }
  }
}

TEST(LossScaleTest, ProgramsWithoutScalingReportNone) {
  const auto result = Train({.steps = 1, .layers = 2});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->report.steps(0).has_loss_scale());
}

// Half precision has 11 bits: losses differ by the rounding of activations, and more as the runs diverge.
TEST(LossScaleTest, HalfPrecisionFollowsSinglePrecision) {
  const TinyPlan single{.steps = 50, .layers = 2, .lr = "peak: 0.003 warmup_steps: 3 decay: 'cosine' min: 0.0003"};
  const Outcome expected = Must(Train(single), "fp32");
  EXPECT_LT(expected.losses.back(), expected.losses.front() - 2);
  for (const char* half : {"fp16", "fp16 grads"}) {
    TinyPlan plan = single;
    plan.half = half;
    const auto result = Train(plan);
    const Outcome outcome = Must(result, half);
    ASSERT_EQ(outcome.losses.size(), 50u);
    for (size_t i = 0; i < 50; ++i) {
      EXPECT_NEAR(outcome.losses[i], expected.losses[i], 1e-3 * expected.losses[i]) << half << " step " << i;
    }
    EXPECT_EQ(result->report.steps(0).loss_scale(), 65536) << half;
    for (const RunStep& step : result->report.steps()) EXPECT_FALSE(step.skipped()) << half << " step " << step.step();
  }
}

// Half-precision gradients keep their norm under the dynamic scale. A tiny fixed scale makes small gradients vanish.
TEST(LossScaleTest, SmallGradientsSurviveOnlyScaled) {
  TinyPlan plan{.steps = 1, .layers = 2, .half = "fp16 grads"};
  TinyPlan single = plan;
  single.half = "";
  const double norm = Must(Train(single), "fp32").norms[0];
  const double dynamic = Must(Train(plan), "dynamic").norms[0];
  plan.plan_fields = "loss_scale { fixed: 0.00006103515625 }";
  const double vanished = Must(Train(plan), "fixed").norms[0];
  EXPECT_NEAR(dynamic, norm, 1e-2 * norm);
  EXPECT_GT(std::abs(vanished - norm), 3e-2 * norm);
}

// Trains on one window of text, so that all iterations see the same sample. Use it with a constant learning rate.
absl::StatusOr<exec::RunResult> TrainOnOneWindow(const TinyPlan& plan, exec::RunOptions options = {}) {
  const std::string path = ::testing::TempDir() + "/window.txt";
  EXPECT_TRUE(WriteFileAtomic(path, "a rank sends and the other waits ").ok());
  const absl::StatusOr<Program> program = CompileTiny(plan);
  if (!program.ok()) return program.status();
  const auto data = OpenTinyText(path, *program);
  if (!data.ok()) return data.status();
  options.collect_weights = true;
  return exec::RunInProcess(*program, **data, options);
}

TinyPlan OneWindow(int steps, const std::string& scale) {
  return {.steps = steps,
          .layers = 2,
          .batch = 1,
          .dropout = 0,
          .plan_fields = absl::StrCat("loss_scale { ", scale, " }"),
          .half = "fp16 grads",
          .lr = "peak: 0.01"};
}

struct Scales {
  std::vector<double> scale;
  std::vector<bool> skipped;
};
Scales ScalesOf(const exec::RunResult& result) {
  Scales scales;
  for (const RunStep& step : result.report.steps()) {
    scales.scale.push_back(step.loss_scale());
    scales.skipped.push_back(step.skipped());
  }
  return scales;
}

// A skipped step uses up its sample and its learning rate, but the optimizer does not count it. Afterwards the run
// equals a run that begins with the reduced scale.
TEST(LossScaleTest, AnOverflowSkipsHalvesAndRecovers) {
  for (const int pipe : {1, 2}) {
    TinyPlan plan = OneWindow(14, absl::StrCat("initial: ", 1 << 26, " growth_interval: 5"));
    plan.pipe = pipe;
    const auto late = TrainOnOneWindow(plan);
    ASSERT_TRUE(late.ok()) << late.status();
    const Scales scales = ScalesOf(*late);
    size_t skipped = 0;
    while (skipped < scales.skipped.size() && scales.skipped[skipped]) ++skipped;
    ASSERT_GT(skipped, 2u);
    ASSERT_LT(skipped, 10u);
    for (size_t i = 0; i < skipped; ++i) {
      EXPECT_EQ(scales.scale[i], std::ldexp(1, 26 - static_cast<int>(i)));
      EXPECT_EQ(late->report.steps(i).grad_norm(), 0);
      EXPECT_EQ(late->report.steps(i).loss(), late->report.steps(0).loss());
    }
    const double recovered = scales.scale[skipped];
    EXPECT_EQ(recovered, std::ldexp(1, 26 - static_cast<int>(skipped)));
    plan.plan_fields = absl::StrCat("loss_scale { initial: ", static_cast<int64_t>(recovered), " growth_interval: 5 }");
    plan.steps = 14 - static_cast<int>(skipped);
    const auto early = TrainOnOneWindow(plan);
    ASSERT_TRUE(early.ok()) << early.status();
    Outcome shifted = OutcomeOf(*late);
    shifted.losses.erase(shifted.losses.begin(), shifted.losses.begin() + skipped);
    shifted.norms.erase(shifted.norms.begin(), shifted.norms.begin() + skipped);
    ExpectSame(shifted, OutcomeOf(*early), absl::StrCat("pipe ", pipe));
    EXPECT_EQ(std::vector<double>(scales.scale.begin() + skipped, scales.scale.end()), ScalesOf(*early).scale);
  }
}

TEST(LossScaleTest, GrowsAfterTheInterval) {
  const auto result = TrainOnOneWindow(OneWindow(7, "initial: 8 growth_interval: 3"));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(ScalesOf(*result).scale, (std::vector<double>{8, 8, 8, 16, 16, 16, 32}));
  for (bool skipped : ScalesOf(*result).skipped) EXPECT_FALSE(skipped);
}

// The dynamic scale is the same on all ranks, so plans still agree.
TEST(LossScaleTest, PlansAgreeInHalfPrecision) {
  for (const char* half : {"fp16", "fp16 grads"}) {
    for (bool exact : {false, true}) {
      TinyPlan plan{.exact = exact, .steps = 8, .layers = 4};
      plan.half = half;
      // With "fp16", only the gradients of activations have half precision. They overflow at a larger scale than the
      // gradients of "fp16 grads".
      const int initial = plan.half == "fp16" ? 1 << 26 : 1 << 21;
      plan.plan_fields = absl::StrCat("loss_scale { initial: ", initial, " growth_interval: 2 }");
      const auto one = Train(plan);
      const Outcome expected = Must(one, plan.Name());
      ASSERT_TRUE(one.ok());
      EXPECT_TRUE(one->report.steps(0).skipped());
      EXPECT_FALSE(one->report.steps(7).skipped());
      std::vector<TinyPlan> others;
      others.push_back(plan);
      others.back().pipe = 2;
      others.push_back(plan);
      others.back().pipe = 4;
      others.back().schedule = "zb-h1";
      others.push_back(plan);
      others.back().pipe = 2;
      others.back().recompute = true;
      others.push_back(plan);
      others.back().pipe = 2;
      absl::StrAppend(&others.back().plan_fields, " offload { optimizer: true bucket_elements: 3000 }");
      if (exact) {
        others.push_back(plan);
        others.back().data = 2;
        others.push_back(others.back());
        absl::StrAppend(&others.back().plan_fields, " zero { stage: 3 }");
        others.push_back(plan);
        others.back().pipe = 2;
        others.back().data = 2;
        others.back().schedule = "gpipe";
      }
      for (const TinyPlan& other : others) {
        const auto result = Train(other);
        ExpectSame(Must(result, other.Name()), expected, other.Name());
        if (result.ok()) {
          EXPECT_EQ(ScalesOf(*result).scale, ScalesOf(*one).scale) << other.Name();
        }
      }
    }
  }
}

TEST(LossScaleTest, TensorParallelPlansComeClose) {
  TinyPlan plan{.steps = 6, .layers = 2, .batch = 8, .microbatch = 2, .mesh = "pipe1"};
  plan.half = "fp16 grads";
  ExpectLossesClose(plan, {"x2", "y2", "z2", "x2 y2 data2 pipe2"}, 5e-3);
}

TEST(LossScaleTest, AResumeContinuesTheScaleBitForBit) {
  TinyPlan plan{.steps = 10, .layers = 2};
  plan.half = "fp16 grads";
  plan.plan_fields = absl::StrCat("loss_scale { initial: ", 1 << 21, " growth_interval: 2 }");
  const auto whole = Train(plan);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::string directory = ::testing::TempDir() + "/loss_scale_resume";
  for (int cut : {2, 7}) {
    std::filesystem::remove_all(directory);
    exec::RunOptions options;
    options.checkpoint.directory = directory;
    options.steps = cut;
    const auto first = Train(plan, options);
    ASSERT_TRUE(first.ok()) << first.status();
    options.steps = 0;
    options.resume = true;
    TinyPlan other = plan;
    other.pipe = 2;
    const auto second = Train(other, options);
    ASSERT_TRUE(second.ok()) << second.status();
    Outcome joined = OutcomeOf(*first);
    const Outcome rest = OutcomeOf(*second);
    joined.losses.insert(joined.losses.end(), rest.losses.begin(), rest.losses.end());
    joined.norms.insert(joined.norms.end(), rest.norms.begin(), rest.norms.end());
    joined.weights = rest.weights;
    ExpectSame(joined, OutcomeOf(*whole), absl::StrCat("cut at ", cut));
    std::vector<double> scales = ScalesOf(*first).scale;
    for (double scale : ScalesOf(*second).scale) scales.push_back(scale);
    EXPECT_EQ(scales, ScalesOf(*whole).scale);
  }
}

// A checkpoint holds logical tensors: a plan without scaling resumes from a plan with it, and the other way round.
TEST(LossScaleTest, CheckpointsCrossOverToPlansWithoutScaling) {
  TinyPlan half{.steps = 6, .layers = 2};
  half.half = "fp16";
  half.plan_fields = absl::StrCat("loss_scale { initial: ", 1 << 28, " }");
  const TinyPlan single{.steps = 6, .layers = 2};
  const std::string directory = ::testing::TempDir() + "/loss_scale_cross";
  for (const bool from_half : {true, false}) {
    std::filesystem::remove_all(directory);
    exec::RunOptions options;
    options.checkpoint.directory = directory;
    options.steps = 3;
    ASSERT_TRUE(Train(from_half ? half : single, options).ok());
    std::string notes;
    options.on_note = [&](const std::string& note) { absl::StrAppend(&notes, note, "\n"); };
    options.steps = 0;
    options.resume = true;
    const auto result = Train(from_half ? single : half, options);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->report.steps_size(), 3);
    if (from_half) {
      EXPECT_FALSE(result->report.steps(0).has_loss_scale());
      EXPECT_THAT(notes, HasSubstr("no dynamic loss scale"));
    } else {
      EXPECT_EQ(result->report.steps(0).loss_scale(), 0x1p28);
    }
  }
}

TEST(LossScaleTest, AFixedScaleThatOverflowsStopsTheRun) {
  TinyPlan plan{.steps = 2, .layers = 2, .plan_fields = "loss_scale { fixed: 1e12 }", .half = "fp16 grads"};
  EXPECT_THAT(std::string(Train(plan).status().message()), HasSubstr("the gradient norm is not finite"));
}

}  // namespace
}  // namespace weft
