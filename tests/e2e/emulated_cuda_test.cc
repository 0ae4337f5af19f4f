// Whole training runs on the kernels of the CUDA backend, in their emulation: they learn what the CPU backend learns,
// and plans have one loss there too, bit for bit.
#include <string>
#include <vector>

#include "executor/backends/cuda/emulated_backend.h"
#include "executor/run.h"
#include "gtest/gtest.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"
#include "tests/e2e/tiny_unet.h"

namespace weft {
namespace {

RunOptions OnEmulation() {
  RunOptions options;
  options.backend = &cuda::EmulatedBackend();
  return options;
}

Outcome Must(const absl::StatusOr<Outcome>& outcome, const std::string& what) {
  EXPECT_TRUE(outcome.ok()) << what << ": " << outcome.status();
  return outcome.ok() ? *outcome : Outcome();
}

TinyPlan Small() {
  TinyPlan plan;
  plan.steps = 3;
  plan.layers = 2;
  plan.batch = 4;
  return plan;
}

void ExpectAsOnTheCpu(const TinyPlan& plan, double tolerance) {
  SCOPED_TRACE(plan.Name());
  const Outcome cpu = Must(TrainTiny(plan), "cpu"), emulated = Must(TrainTiny(plan, OnEmulation()), "emulated");
  ASSERT_EQ(cpu.losses.size(), static_cast<size_t>(plan.steps));
  EXPECT_NE(cpu.losses.front(), cpu.losses.back());
  ExpectClose(emulated, cpu, "emulated", tolerance);
}

class EmulatedFamilyTest : public testing::TestWithParam<std::string> {};

TEST_P(EmulatedFamilyTest, LearnsWhatTheCpuLearns) {
  TinyPlan plan = Small();
  plan.family = GetParam();
  ExpectAsOnTheCpu(plan, 2e-5);
}

INSTANTIATE_TEST_SUITE_P(Families, EmulatedFamilyTest, testing::Values("gpt2", "llama", "mistral", "qwen2", "bert"),
                         [](const auto& info) { return info.param; });

// The same model whatever is split, kept, scaled or made in several ops.
TEST(EmulatedCudaTest, FormsOfPlansLearnWhatTheCpuLearns) {
  std::vector<TinyPlan> plans;
  for (const char* mesh : {"x2", "z2", "x2 data2"}) {
    plans.push_back(Small());
    plans.back().mesh = mesh;
    plans.back().microbatch = 2;
  }
  for (const char* fields : {"attention: MATERIALIZED dropout_masks: true", "zero { stage: 3 }"}) {
    plans.push_back(Small());
    plans.back().plan_fields = fields;
    plans.back().data = 2;
  }
  plans.push_back(Small());
  plans.back().optimizer = "sgd { momentum: 0.9 weight_decay: 0.1 }";
  plans.push_back(Small());
  plans.back().fp64 = true;
  for (const TinyPlan& plan : plans) ExpectAsOnTheCpu(plan, 2e-5);
}

// Roundings to bf16 and fp16 fall differently here and there.
TEST(EmulatedCudaTest, HalfPrecisionLearnsWhatTheCpuLearns) {
  TinyPlan plan = Small();
  plan.bf16 = true;
  ExpectAsOnTheCpu(plan, 3e-3);
  plan = Small();
  plan.half = "fp16";
  plan.plan_fields = "loss_scale { initial: 1024 growth_interval: 2 }";
  ExpectAsOnTheCpu(plan, 1e-3);
}

TEST(EmulatedCudaTest, PlansInOrderHaveOneLoss) {
  TinyPlan base = Small();
  base.schedule = "gpipe";
  base.layers = 4;
  const Outcome reference = Must(TrainTiny(base, OnEmulation()), base.Name());
  ASSERT_FALSE(reference.losses.empty());
  struct Case {
    std::string schedule, fields;
    bool recompute;
  };
  for (const Case& c : std::vector<Case>{{"1f1b", "", true}, {"zb-h1", "", false}, {"zb-v", "", false}}) {
    TinyPlan plan = base;
    plan.pipe = 2;
    plan.schedule = c.schedule;
    plan.schedule_fields = c.fields;
    plan.recompute = c.recompute;
    ExpectSame(Must(TrainTiny(plan, OnEmulation()), plan.Name()), reference, plan.Name());
  }
}

TEST(EmulatedCudaTest, ExactPlansHaveOneLoss) {
  TinyPlan base = Small();
  base.exact = true;
  const Outcome reference = Must(TrainTiny(base, OnEmulation()), base.Name());
  ASSERT_FALSE(reference.losses.empty());
  TinyPlan replicas = base, chimera = base;
  replicas.data = 2;
  chimera.pipe = 2;
  chimera.schedule = "chimera";
  chimera.schedule_fields = "scaling: FORWARD_DOUBLING";
  for (const TinyPlan& plan : {replicas, chimera}) {
    ExpectSame(Must(TrainTiny(plan, OnEmulation()), plan.Name()), reference, plan.Name());
  }
}

TEST(EmulatedCudaTest, AUnetLearnsWhatTheCpuLearns) {
  UnetPlan plan;
  plan.batch = 2;
  plan.steps = 2;
  plan.scale_shift = true;
  const Outcome cpu = Must(TrainUnet(plan), "cpu"), emulated = Must(TrainUnet(plan, OnEmulation()), "emulated");
  ASSERT_EQ(cpu.losses.size(), 2u);
  ExpectClose(emulated, cpu, "emulated", 2e-5);
  plan.pipe = 2;
  ExpectSame(Must(TrainUnet(plan, OnEmulation()), plan.Name()), emulated, plan.Name());
}

}  // namespace
}  // namespace weft
