// Post-validation (rule P15) changes no bit: whether clipping undoes every optimizer step, none or some, losses, norms
// and weights equal those of the plan that waits for its norms.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/run/run.h"
#include "gtest/gtest.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

constexpr int kSteps = 8;

TinyPlan PlanOf(const std::string& schedule, int pipe, int data) {
  TinyPlan plan{.pipe = pipe, .data = data, .schedule = schedule};
  plan.steps = kSteps;
  plan.layers = 8;
  plan.batch = 8 * data;
  return plan;
}

TinyPlan Validated(TinyPlan plan) {
  absl::StrAppend(&plan.plan_fields, " post_validation: true");
  return plan;
}

int Exceeded(const Outcome& outcome, double clip) {
  return static_cast<int>(
      std::count_if(outcome.norms.begin(), outcome.norms.end(), [&](double norm) { return clip / (norm + 1e-6) < 1; }));
}

// Returns a clip_norm that the norms of some steps of the plan exceed and the norms of other steps do not.
double ClipInBetween(TinyPlan plan, Outcome* outcome) {
  plan.clip = 1e6;
  const auto free = TrainTiny(plan);
  EXPECT_TRUE(free.ok()) << free.status();
  std::vector<double> norms = free->norms;
  // Try the norms from the middle outward, because a middle one mostly works.
  std::sort(norms.begin(), norms.end());
  const double middle = norms[norms.size() / 2];
  std::stable_sort(norms.begin(), norms.end(),
                   [&](double a, double b) { return std::abs(a - middle) < std::abs(b - middle); });
  for (const double clip : norms) {
    plan.clip = clip;
    const auto clipped = TrainTiny(plan);
    EXPECT_TRUE(clipped.ok()) << clipped.status();
    *outcome = *clipped;
    const int count = Exceeded(*clipped, clip);
    if (count > 1 && count < kSteps - 1) return clip;
  }
  ADD_FAILURE() << plan.Name() << ": no clip_norm is exceeded in some steps only";
  return middle;
}

void ExpectNoBitChanges(TinyPlan plan, int exceeded_at_least, int exceeded_at_most) {
  const auto plain = TrainTiny(plan);
  ASSERT_TRUE(plain.ok()) << plan.Name() << ": " << plain.status();
  ASSERT_EQ(plain->losses.size(), kSteps);
  const int exceeded = Exceeded(*plain, plan.clip);
  EXPECT_GE(exceeded, exceeded_at_least) << plan.Name();
  EXPECT_LE(exceeded, exceeded_at_most) << plan.Name();
  const auto validated = TrainTiny(Validated(plan));
  ASSERT_TRUE(validated.ok()) << plan.Name() << ": " << validated.status();
  ExpectSame(*validated, *plain, plan.Name());
}

struct Case {
  const char* schedule;
  int pipe, data;
  const char* fields = "";
  bool exact = false, bf16 = false, tied = true;
};

class PostValidationOf : public testing::TestWithParam<Case> {};

TEST_P(PostValidationOf, AlwaysNeverAndSometimesExceeded) {
  const Case& c = GetParam();
  TinyPlan plan = PlanOf(c.schedule, c.pipe, c.data);
  plan.schedule_fields = c.fields;
  plan.exact = c.exact;
  plan.bf16 = c.bf16;
  plan.tied = c.tied;
  plan.clip = 1e-3;
  ExpectNoBitChanges(plan, kSteps, kSteps);
  plan.clip = 1e6;
  ExpectNoBitChanges(plan, 0, 0);
  Outcome outcome;
  plan.clip = ClipInBetween(plan, &outcome);
  ExpectNoBitChanges(plan, 2, kSteps - 2);
}

INSTANTIATE_TEST_SUITE_P(PostValidationTest, PostValidationOf,
                         testing::Values(Case{"zb-h2", 2, 1}, Case{"zb-h2", 4, 1, "", false, false, false},
                                         Case{"zb-h2", 2, 2}, Case{"zb-v", 2, 1, "", true}, Case{"zb-v", 4, 1},
                                         Case{"zb-v", 2, 2, "", true}, Case{"1f1b", 4, 1, "", false, true},
                                         Case{"gpipe", 1, 2}, Case{"interleaved", 2, 1, "virtual_stages: 2"},
                                         Case{"chimera", 4, 1, "", true}, Case{"chimera", 2, 1},
                                         Case{"dualpipev", 2, 1, "", true}),
                         [](const auto& info) {
                           std::string name = info.param.schedule;
                           name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
                           return absl::StrCat(name, "Pipe", info.param.pipe, "Data", info.param.data);
                         });

TEST(PostValidationTest, WithoutClippingOnlyTheCheckIsLate) {
  TinyPlan plan = PlanOf("zb-h2", 2, 1);
  plan.clip = 0;
  ExpectNoBitChanges(plan, 0, kSteps);
  // With ZeRO 1 and exact accumulation, CLEAR_GRADIENTS has only the rank's part of the gradient to zero.
  plan = PlanOf("zb-h2", 2, 2);
  plan.clip = 0;
  plan.exact = true;
  for (const char* fields : {"zero { stage: 1 }", "zero { stage: 1 } loss_scale { fixed: 64 }"}) {
    plan.plan_fields = fields;
    ExpectNoBitChanges(plan, 0, kSteps);
  }
}

// With these plans, collectives inside segments also write gradients beside compute. They must not do so before a
// wrongly clipped update is repaired.
TEST(PostValidationTest, CollectivesOfSegments) {
  for (const char* mesh : {"pipe2 x2", "pipe2 y2", "z2 pipe2"}) {
    TinyPlan plan = PlanOf("zb-h2", 2, 1);
    plan.mesh = mesh;
    plan.microbatch = 2;
    for (const double clip : {1e-3, 1e6}) {
      plan.clip = clip;
      ExpectNoBitChanges(plan, clip < 1 ? kSteps : 0, clip < 1 ? kSteps : 0);
    }
  }
  TinyPlan zero = PlanOf("1f1b", 2, 2);
  zero.plan_fields = "zero { stage: 3 }";
  zero.clip = 1e-3;
  ExpectNoBitChanges(zero, kSteps, kSteps);
}

// Weights are gathered after the optimizer, and again after an update is undone.
TEST(PostValidationTest, WeightsGatheredOfUpdates) {
  struct Cut {
    const char *mesh, *schedule, *fields;
    bool exact = false, bf16 = false;
    int microbatch = 1;
  };
  for (const Cut& c :
       {Cut{"data2 pipe2", "zb-h2", "zero { stage: 1 }"}, Cut{"data2 pipe2", "1f1b", "zero { stage: 2 }"},
        Cut{"data2 pipe2", "zb-v", "zero { stage: 1 } gradient_bucket_bytes: 2000", true},
        Cut{"data2 pipe2", "zb-h2", "zero { stage: 1 }", false, true},
        Cut{"data2 pipe2", "zb-h1", "zero { stage: 2 }", true, true},
        Cut{"data4", "gpipe", "zero { stage: 1 group: 2 }"}, Cut{"pipe2 data2", "chimera", "zero { stage: 1 }", true},
        Cut{"z2 data2 pipe2", "zb-h2", "zero { stage: 1 }", true, true, 2},
        Cut{"data2 pipe2", "zb-v", "zero { stage: 3 reshard: LAYERS kept_layers: [1, 3] }", true},
        Cut{"data2 pipe2", "1f1b", "zero { stage: 3 reshard: BY_BENEFIT }"}}) {
    SCOPED_TRACE(absl::StrCat(c.mesh, " ", c.schedule, " ", c.fields));
    TinyPlan plan = PlanOf(c.schedule, 2, 2);
    plan.mesh = c.mesh;
    plan.plan_fields = c.fields;
    plan.exact = c.exact;
    plan.bf16 = c.bf16;
    plan.microbatch = c.microbatch;
    // Some norms of every plan exceed this limit, and some do not.
    plan.clip = 1.74;
    ExpectNoBitChanges(plan, 2, kSteps - 2);
    // Under exact accumulation, the outcome also equals the outcome of replicas that keep all states.
    if (!c.exact || std::string(c.fields).find("stage: 3") != std::string::npos) continue;
    TinyPlan whole = Validated(plan);
    whole.plan_fields = "post_validation: true";
    const auto kept = TrainTiny(whole), shared = TrainTiny(Validated(plan));
    ASSERT_TRUE(kept.ok() && shared.ok()) << kept.status() << shared.status();
    ExpectSame(*shared, *kept, "without ZeRO");
  }
}

std::string Figures(const RunStep& step) {
  return absl::StrFormat("step %d loss %.17g norm %.17g scale %.17g%s", step.step(), step.loss(), step.grad_norm(),
                         step.loss_scale(), step.skipped() ? " skipped" : "");
}

// Compares all figures of each step of a run with a loss scale, and the final weights.
void ExpectSameSteps(const TinyPlan& plan, exec::RunOptions options, int* skipped) {
  const auto plain = Train(plan, options), validated = Train(Validated(plan), options);
  ASSERT_TRUE(plain.ok()) << plan.Name() << ": " << plain.status();
  ASSERT_TRUE(validated.ok()) << plan.Name() << ": " << validated.status();
  ASSERT_EQ(validated->report.steps_size(), plain->report.steps_size());
  for (int i = 0; i < plain->report.steps_size(); ++i) {
    EXPECT_EQ(Figures(validated->report.steps(i)), Figures(plain->report.steps(i))) << plan.Name();
    *skipped += plain->report.steps(i).skipped();
  }
  ExpectSame(OutcomeOf(*validated), OutcomeOf(*plain), plan.Name());
}

// An overflow that is found late undoes the update. The scale changes as without post-validation: it is halved if the
// gradient was not finite, and doubled after enough good steps in a row.
TEST(PostValidationTest, LossScales) {
  struct Scaled {
    const char *mesh, *schedule, *half, *fields;
    double clip = 0;
    bool exact = false;
  };
  int skipped = 0;
  for (const Scaled& c :
       {Scaled{"pipe2", "zb-h2", "fp16 grads", "loss_scale { initial: 1e9 growth_interval: 2 }"},
        Scaled{"pipe2", "zb-v", "fp16 grads", "loss_scale { initial: 1e9 growth_interval: 1 }", 0.6},
        Scaled{"data2 pipe2", "1f1b", "fp16", "loss_scale { initial: 1e12 growth_interval: 2 } zero { stage: 1 }", 0.6},
        Scaled{"data2 pipe2", "zb-h2", "fp16 grads", "loss_scale { initial: 1e9 growth_interval: 1 } zero { stage: 2 }",
               0.6, true},
        Scaled{"x2 pipe2", "zb-h2", "fp16 grads", "loss_scale { initial: 1e9 growth_interval: 2 }", 0.6},
        Scaled{"pipe2", "zb-h2", "fp16", "loss_scale { fixed: 1000 }", 0.6},
        Scaled{"pipe2", "zb-h2", "fp16", "loss_scale { fixed: 1000 }"},
        Scaled{"data2 pipe2", "zb-v", "", "loss_scale { fixed: 0.3 } zero { stage: 1 }", 0.6},
        Scaled{"pipe2", "gpipe", "", "loss_scale { fixed: 1024 }", 1e-3}}) {
    SCOPED_TRACE(absl::StrCat(c.mesh, " ", c.schedule, " ", c.half, " ", c.fields));
    TinyPlan plan = PlanOf(c.schedule, 2, 2);
    plan.mesh = c.mesh;
    plan.half = c.half;
    plan.plan_fields = c.fields;
    plan.clip = c.clip;
    plan.exact = c.exact;
    ExpectSameSteps(plan, {}, &skipped);
  }
  EXPECT_GT(skipped, 5);
}

// Between two steps, the stored scale is the scale of the next step. Checkpoints and runs that resume from them use it.
TEST(PostValidationTest, LossScalesAreSaved) {
  TinyPlan plan = PlanOf("zb-h2", 2, 1);
  plan.half = "fp16 grads";
  plan.plan_fields = "loss_scale { initial: 1e9 growth_interval: 1 }";
  int skipped = 0;
  exec::RunOptions saving;
  saving.checkpoint_every = 3;
  saving.steps = 5;
  for (const bool resume : {false, true}) {
    SCOPED_TRACE(resume);
    saving.resume = resume;
    if (resume) saving.steps = 0;
    // The second run resumes from the checkpoint of the first.
    saving.checkpoint.directory = ::testing::TempDir() + "/post_validated_scale";
    if (!resume) std::filesystem::remove_all(saving.checkpoint.directory);
    const auto run = Train(Validated(plan), saving);
    ASSERT_TRUE(run.ok()) << run.status();
    const auto plain = Train(plan);
    ASSERT_TRUE(plain.ok()) << plain.status();
    const int first = resume ? 5 : 0;
    for (int i = 0; i < run->report.steps_size(); ++i) {
      EXPECT_EQ(Figures(run->report.steps(i)), Figures(plain->report.steps(first + i)));
      skipped += run->report.steps(i).skipped();
    }
  }
  EXPECT_GT(skipped, 0);
}

TEST(PostValidationTest, TransfersThatShareStreamsOrGroups) {
  for (const char* fields : {"transfer_order: BY_DIRECTION transfer_placement: DEFERRED", "group_transfers: true",
                             "transfer_placement: FASTEST", "step_barrier: true", "receive_buffers: 3"}) {
    TinyPlan plan = PlanOf("zb-h2", 4, 1);
    plan.plan_fields = fields;
    plan.clip = 0.7;
    ExpectNoBitChanges(plan, 0, kSteps);
  }
}

TEST(PostValidationTest, CollectivesOfSegmentsSometimesExceeded) {
  struct Cut {
    const char *mesh, *schedule, *fields;
  };
  for (const Cut& c : {Cut{"x2 pipe2", "zb-h2", ""}, Cut{"x2 pipe2", "zb-v", "sequence_parallel: true"},
                       Cut{"data2 pipe2", "1f1b", "zero { stage: 3 }"}}) {
    SCOPED_TRACE(absl::StrCat(c.mesh, " ", c.fields));
    TinyPlan plan = PlanOf(c.schedule, 2, 1);
    plan.mesh = c.mesh;
    plan.plan_fields = c.fields;
    Outcome outcome;
    plan.clip = ClipInBetween(plan, &outcome);
    ExpectNoBitChanges(plan, 2, kSteps - 2);
  }
}

TEST(PostValidationTest, ActsBetweenStepsOnValidatedWeights) {
  TinyPlan plan = PlanOf("zb-h2", 2, 1);
  Outcome plain;
  plan.clip = ClipInBetween(plan, &plain);
  const auto program = CompileTiny(Validated(plan));
  ASSERT_TRUE(program.ok()) << program.status();
  // The ranks vote after every step, but no rank votes to stop.
  std::atomic<bool> stop = false;
  exec::RunOptions options;
  options.stop = &stop;
  const auto voted = Train(*program, options);
  ASSERT_TRUE(voted.ok()) << voted.status();
  ExpectSame(OutcomeOf(*voted), plain, "with votes");

  // A run with checkpoints, and a run that resumes from one.
  exec::RunOptions saving;
  saving.checkpoint.directory = ::testing::TempDir() + "/post_validation";
  std::filesystem::remove_all(saving.checkpoint.directory);
  saving.checkpoint_every = 2;
  saving.steps = 5;
  const auto first = Train(*program, saving);
  ASSERT_TRUE(first.ok()) << first.status();
  saving.steps = 0;
  saving.resume = true;
  const auto rest = Train(*program, saving);
  ASSERT_TRUE(rest.ok()) << rest.status();
  Outcome joined = OutcomeOf(*first);
  const Outcome later = OutcomeOf(*rest);
  joined.losses.insert(joined.losses.end(), later.losses.begin(), later.losses.end());
  joined.norms.insert(joined.norms.end(), later.norms.begin(), later.norms.end());
  joined.weights = later.weights;
  ExpectSame(joined, plain, "resumed");
}

TEST(PostValidationTest, StopsWithAValidatedStep) {
  TinyPlan plan = PlanOf("zb-h2", 2, 1);
  plan.clip = 1e-3;
  std::atomic<bool> stop = false;
  exec::RunOptions options;
  options.stop = &stop;
  options.on_step = [&](const RunStep& step) { stop = stop || step.step() == 2; };
  const auto stopped = Train(Validated(plan), options);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_TRUE(stopped->stopped);
  const int steps = stopped->report.steps_size();
  ASSERT_GT(steps, 2);
  ASSERT_LT(steps, kSteps);
  exec::RunOptions same;
  same.steps = steps;
  const auto plain = TrainTiny(plan, same);
  ASSERT_TRUE(plain.ok()) << plain.status();
  ExpectSame(OutcomeOf(*stopped), *plain, absl::StrCat("stopped after ", steps));
}

}  // namespace
}  // namespace weft
