// Stochastic rounding of weights and moments gives the same bits in every plan that promises the same bits, after a
// resume, and on another backend. Also tests what the compiler and the verifier refuse.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/collective/plan.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"
#include "verifier/verify.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TinyPlan PlanOf(const std::string& mesh, const std::string& fields = "", const std::string& schedule = "1f1b") {
  TinyPlan plan{.schedule = schedule, .steps = 4, .layers = 2, .batch = 16, .microbatch = 2, .mesh = mesh};
  plan.exact = true;
  plan.bf16 = true;
  plan.plan_fields = fields;
  plan.optimizer = "adamw {} weight_rounding: STOCHASTIC";
  return plan;
}

Outcome Must(const TinyPlan& plan, exec::RunOptions options = {}) {
  const auto outcome = TrainTiny(plan, std::move(options));
  EXPECT_TRUE(outcome.ok()) << plan.Name() << ": " << outcome.status();
  return outcome.ok() ? *outcome : Outcome();
}

void ExpectSamePlans(const TinyPlan& one, const std::vector<TinyPlan>& others) {
  const Outcome expected = Must(one);
  for (const TinyPlan& other : others) ExpectSame(Must(other), expected, other.Name());
}

TEST(StochasticRoundingTest, IsNotToTheNearestAndNotByChance) {
  TinyPlan nearest = PlanOf("pipe1");
  nearest.optimizer = "adamw {}";
  const Outcome to_nearest = Must(nearest), at_random = Must(PlanOf("pipe1"));
  ASSERT_EQ(at_random.losses.size(), 4u);
  // The first step sees initial weights, which are rounded to nearest.
  EXPECT_EQ(at_random.losses[0], to_nearest.losses[0]);
  EXPECT_NE(at_random.losses[1], to_nearest.losses[1]);
  ExpectClose(at_random, to_nearest, "nearest", 2e-2);
  ExpectSame(Must(PlanOf("pipe1")), at_random, "again");
}

TEST(StochasticRoundingTest, DataDegreesAndZeroHaveOneLoss) {
  std::vector<TinyPlan> others;
  for (const char* mesh : {"data2", "data4", "pipe2 data2"}) {
    for (const char* fields : {"", "zero { stage: 1 }", "zero { stage: 2 }", "zero { stage: 3 }"}) {
      others.push_back(PlanOf(mesh, fields));
    }
  }
  for (const char* fields : {"zero { stage: 1 group: 2 }", "zero { stage: 3 group: 2 }"}) {
    others.push_back(PlanOf("data4", fields));
  }
  ExpectSamePlans(PlanOf("pipe1"), others);
}

TEST(StochasticRoundingTest, SchedulesAndOffloadHaveOneLoss) {
  const std::string offload = "offload { optimizer: true bucket_elements: 3000 } ";
  std::vector<TinyPlan> others = {PlanOf("pipe2", "", "zb-h1"), PlanOf("pipe2", "", "chimera"),
                                  PlanOf("pipe2", "", "gpipe")};
  for (const char* fields : {"", "zero { stage: 1 }", "zero { stage: 2 }", "zero { stage: 3 }"}) {
    others.push_back(PlanOf("data2", offload + fields));
  }
  others.push_back(PlanOf("pipe2", offload));
  others.push_back(PlanOf("pipe2"));
  others.back().recompute = true;
  ExpectSamePlans(PlanOf("pipe1"), others);
}

TEST(StochasticRoundingTest, HalfPrecisionAndSgdHaveOneLoss) {
  TinyPlan half = PlanOf("pipe1", "loss_scale { initial: 67108864 growth_interval: 2 } ");
  half.bf16 = false;
  half.half = "fp16";
  TinyPlan sgd = PlanOf("pipe1");
  sgd.optimizer = "sgd { momentum: 0.9 weight_decay: 0.1 } weight_rounding: STOCHASTIC";
  for (const TinyPlan& one : {half, sgd}) {
    std::vector<TinyPlan> others = {one, one, one};
    others[0].mesh = "data2";
    absl::StrAppend(&others[0].plan_fields, "zero { stage: 1 }");
    others[1].mesh = "pipe2 data2";
    absl::StrAppend(&others[1].plan_fields, "zero { stage: 3 }");
    others[2].mesh = "pipe2";
    absl::StrAppend(&others[2].plan_fields, "offload { optimizer: true bucket_elements: 3000 }");
    ExpectSamePlans(one, others);
  }
}

// Each tensor-parallel part of a tensor has its own random numbers, and sharding it further does not change them.
TEST(StochasticRoundingTest, TensorParallelPlansHaveOneLoss) {
  for (const std::string mesh : {"x2", "z2", "x2 y2"}) {
    ExpectSamePlans(PlanOf(mesh), {PlanOf(mesh + " data2"), PlanOf(mesh + " data2", "zero { stage: 1 }"),
                                   PlanOf(mesh + " data2", "zero { stage: 3 }"), PlanOf(mesh + " pipe2")});
  }
}

// An update that is undone and made again draws the same random numbers.
TEST(StochasticRoundingTest, PostValidationChangesNoBit) {
  TinyPlan plan = PlanOf("pipe2", "", "zb-h1");
  plan.exact = false;
  plan.clip = 0.2;
  TinyPlan validated = plan;
  absl::StrAppend(&validated.plan_fields, " post_validation: true");
  ExpectSamePlans(plan, {validated});
}

TEST(StochasticRoundingTest, ProgramsWithoutAFlushRun) {
  TinyPlan plan = PlanOf("pipe2", "", "pipedream-2bw");
  plan.exact = false;
  plan.clip = 0;
  plan.tied = false;
  plan.steps = 8;
  const Outcome outcome = Must(plan);
  ExpectSame(Must(plan), outcome, "again");
  plan.optimizer = "adamw {}";
  EXPECT_NE(Must(plan).weights, outcome.weights);
}

// Checkpoints hold the optimizer's weights. A resume rounds the weights for compute again, as the last step did.
TEST(StochasticRoundingTest, AResumeChangesNoBit) {
  const Outcome whole = Must(PlanOf("pipe1"));
  const std::string directory = ::testing::TempDir() + "/rounding_resume";
  for (const TinyPlan& other :
       {PlanOf("pipe1"), PlanOf("pipe2 data2", "zero { stage: 3 }"),
        PlanOf("data2", "zero { stage: 1 } offload { optimizer: true bucket_elements: 3000 }")}) {
    std::filesystem::remove_all(directory);
    exec::RunOptions options;
    options.checkpoint.directory = directory;
    options.steps = 2;
    Outcome joined = Must(PlanOf("data2", "zero { stage: 2 }"), options);
    options.steps = 0;
    options.resume = true;
    const Outcome rest = Must(other, options);
    joined.losses.insert(joined.losses.end(), rest.losses.begin(), rest.losses.end());
    joined.norms.insert(joined.norms.end(), rest.norms.begin(), rest.norms.end());
    joined.weights = rest.weights;
    ExpectSame(joined, whole, other.Name());
  }
  std::filesystem::remove_all(directory);
}

TinyPlan HalfMomentsOf(const std::string& mesh, const std::string& fields = "", const std::string& schedule = "1f1b") {
  TinyPlan plan = PlanOf(mesh, fields, schedule);
  plan.precision = "compute: BF16 params: BF16 grads: FP32 reduce: FP32 master: FP32 moments: BF16";
  plan.optimizer = "adamw { beta2: 0.999 } weight_rounding: STOCHASTIC";
  return plan;
}

TEST(StochasticRoundingTest, MomentsInBf16HaveOneLoss) {
  const TinyPlan one = HalfMomentsOf("pipe1");
  const std::string offload = "offload { optimizer: true bucket_elements: 3000 } ";
  ExpectSamePlans(one, {HalfMomentsOf("pipe2"), HalfMomentsOf("pipe2", "", "chimera"), HalfMomentsOf("data4"),
                        HalfMomentsOf("data2", "zero { stage: 1 }"), HalfMomentsOf("pipe2 data2", "zero { stage: 2 }"),
                        HalfMomentsOf("data4", "zero { stage: 3 group: 2 }"), HalfMomentsOf("data2", offload),
                        HalfMomentsOf("data2", offload + "zero { stage: 3 }")});
  ExpectSamePlans(HalfMomentsOf("x2"), {HalfMomentsOf("x2 data2", "zero { stage: 1 }")});
  // Moments are rounded stochastically: neither to nearest, nor left in fp32 as with stochastic weights alone.
  TinyPlan nearest = one, alone = one;
  nearest.optimizer = "adamw { beta2: 0.999 }";
  alone.precision = "compute: BF16 params: BF16 grads: FP32 reduce: FP32 master: FP32 moments: FP32";
  const Outcome at_random = Must(one);
  EXPECT_NE(Must(nearest).weights, at_random.weights);
  EXPECT_NE(Must(alone).weights, at_random.weights);
  ExpectClose(at_random, Must(alone), "moments in fp32", 2e-2);
  TinyPlan sgd = one;
  sgd.optimizer = "sgd { momentum: 0.9 } weight_rounding: STOCHASTIC";
  TinyPlan sharded = sgd;
  sharded.mesh = "data2";
  sharded.plan_fields = "zero { stage: 1 }";
  ExpectSamePlans(sgd, {sharded});
}

// An update that is undone and made again draws the same random numbers.
TEST(StochasticRoundingTest, PostValidationChangesNoMoment) {
  TinyPlan plan = HalfMomentsOf("pipe2", "", "zb-h1");
  plan.exact = false;
  plan.clip = 0.2;
  TinyPlan validated = plan;
  absl::StrAppend(&validated.plan_fields, " post_validation: true");
  ExpectSamePlans(plan, {validated});
}

// Checkpoints hold moments as they are stored, so nothing is rounded again. Moments saved in fp32 are rounded, and a
// note reports it.
TEST(StochasticRoundingTest, AResumeChangesNoMoment) {
  const Outcome whole = Must(HalfMomentsOf("pipe1"));
  const std::string directory = ::testing::TempDir() + "/moments_resume";
  const auto half_of = [&](const TinyPlan& first) {
    std::filesystem::remove_all(directory);
    exec::RunOptions options;
    options.checkpoint.directory = directory;
    options.steps = 2;
    return Must(first, options);
  };
  std::vector<std::string> notes;
  exec::RunOptions rest;
  rest.checkpoint.directory = directory;
  rest.resume = true;
  rest.on_note = [&](const std::string& note) {
    if (note.rfind("note:", 0) == 0) notes.push_back(note);
  };
  Outcome joined = half_of(HalfMomentsOf("data2", "zero { stage: 2 }"));
  const Outcome second = Must(HalfMomentsOf("pipe2 data2", "zero { stage: 3 }"), rest);
  joined.losses.insert(joined.losses.end(), second.losses.begin(), second.losses.end());
  joined.norms.insert(joined.norms.end(), second.norms.begin(), second.norms.end());
  joined.weights = second.weights;
  ExpectSame(joined, whole, "resumed");
  EXPECT_THAT(notes, testing::IsEmpty());
  TinyPlan single = HalfMomentsOf("pipe1");
  single.precision = "compute: BF16 params: BF16 grads: FP32 reduce: FP32 master: FP32 moments: FP32";
  half_of(single);
  Must(HalfMomentsOf("pipe1"), rest);
  EXPECT_THAT(notes, testing::ElementsAre(HasSubstr("moments are FP32, but the program keeps them in BF16")));
  std::filesystem::remove_all(directory);
}

TEST(StochasticRoundingTest, RefusedWithoutHalves) {
  TinyPlan plan = PlanOf("pipe1");
  plan.bf16 = false;
  EXPECT_THAT(std::string(CompileTiny(plan).status().message()),
              HasSubstr("recipe.weight_rounding = STOCHASTIC rounds the optimizer's weights to half precision; "
                        "plan.precision.params = FP32; allowed: BF16 or FP16, or recipe.weight_rounding = NEAREST"));
}

// A step that draws the random numbers of other elements, or none, would go unnoticed at run time, and plans would
// differ. So the verifier refuses it.
TEST(StochasticRoundingTest, ProgramsThatRoundOtherwiseAreRefused) {
  const auto offloaded = CompileTiny(PlanOf("pipe1", "offload { optimizer: true bucket_elements: 3000 }"));
  ASSERT_TRUE(offloaded.ok()) << offloaded.status();
  VerifyOptions options;
  options.algorithms = KnownCollectives();
  ASSERT_TRUE(VerifyProgram(*offloaded, options).ok());
  const auto refused = [&](auto edit, const std::string& says) {
    Program program = *offloaded;
    for (Segment& segment : *program.mutable_segments()) {
      for (Step& step : *segment.mutable_steps()) {
        if (step.attributes().first_element() == 0) continue;
        edit(*step.mutable_attributes());
        const std::string message(VerifyProgram(program, options).message());
        EXPECT_THAT(message, HasSubstr("P11.round"));
        EXPECT_THAT(message, HasSubstr(says));
        return;
      }
    }
    ADD_FAILURE() << "no tensor is updated in parts";
  };
  refused([](StepAttributes& a) { a.set_first_element(a.first_element() - 8); }, "but it updates the elements from");
  refused([](StepAttributes& a) { a.set_rounding_site(a.rounding_site() + 1); }, "whose rounding_site is");
  refused([](StepAttributes& a) { a.clear_rounding_site(); }, "must be positive");
}

}  // namespace
}  // namespace weft
