// Whole training runs on the emulated kernels of the CUDA backend. They train like the CPU backend, and all plans have
// the same loss, bit for bit.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/backends/cuda/emulated_backend.h"
#include "executor/run/run.h"
#include "executor/testing/deferred_device.h"
#include "gtest/gtest.h"
#include "proto/util/status.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"
#include "tests/e2e/tiny_unet.h"

namespace weft {
namespace {

// A backend that owns the device on which it runs.
class WithDevice : public exec::Backend {
 public:
  WithDevice(std::unique_ptr<exec::ComputeDevice> device, std::unique_ptr<exec::Backend> backend)
      : device_(std::move(device)), backend_(std::move(backend)) {}
  absl::Status Run(const Step& step, absl::Span<const exec::TensorView> inputs,
                   absl::Span<const exec::TensorView> outputs, const exec::StepContext& context) override {
    return backend_->Run(step, inputs, outputs, context);
  }
  absl::StatusOr<std::unique_ptr<exec::StepRun>> PrepareRun(absl::Span<const exec::StepOfRun> steps) override {
    return backend_->PrepareRun(steps);
  }

 private:
  std::unique_ptr<exec::ComputeDevice> device_;
  std::unique_ptr<exec::Backend> backend_;
};

// Returns a backend with the emulated CUDA kernels on a deferred device, which runs enqueued work later, in some legal
// order.
const exec::BackendEntry& Deferred() {
  static const exec::BackendEntry entry = {
      "deferred",
      [](const exec::DeviceOptions& options) -> absl::StatusOr<std::unique_ptr<exec::ComputeDevice>> {
        return std::make_unique<exec::DeferredDevice>(static_cast<uint64_t>(options.ordinal));
      },
      [](exec::ComputeDevice* device,
         const exec::BackendOptions& options) -> absl::StatusOr<std::unique_ptr<exec::Backend>> {
        // The CUDA backend tries library calls in idle memory, so the executor must pass an arena that nothing else
        // uses yet.
        if (options.idle_memory == nullptr || options.idle_bytes <= 0) return absl::InternalError("no idle memory");
        WEFT_ASSIGN_OR_RETURN(auto host, exec::cuda::EmulatedBackend().open({}));
        // Create streams with the numbers of the deferred device's streams. Ranks may share them.
        for (int i = 0; i < 64; ++i)
          WEFT_RETURN_IF_ERROR(host->NewStream(exec::ComputeDevice::Priority::kNormal).status());
        WEFT_ASSIGN_OR_RETURN(auto backend, exec::cuda::EmulatedBackend().make(host.get(), options));
        return exec::MakeDeferredBackend(static_cast<exec::DeferredDevice*>(device),
                                         std::make_unique<WithDevice>(std::move(host), std::move(backend)));
      },
      "kernels of the CUDA backend as work that runs later"};
  return entry;
}

exec::RunOptions OnEmulation() {
  exec::RunOptions options;
  options.backend = &exec::cuda::EmulatedBackend();
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

INSTANTIATE_TEST_SUITE_P(Families, EmulatedFamilyTest,
                         testing::Values("gpt2", "llama", "mistral", "qwen2", "bert", "relu2"),
                         [](const auto& info) { return info.param; });

// The model learns the same if it is sharded, keeps masks, or computes attention in several ops.
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
  // Three replicas divide no matrix: shards have odd numbers of elements and are padded.
  for (const char* fields : {"zero { stage: 1 }", "zero { stage: 2 }", "zero { stage: 3 }"}) {
    plans.push_back(Small());
    plans.back().plan_fields = fields;
    plans.back().data = 3;
    plans.back().batch = 6;
  }
  plans.push_back(Small());
  plans.back().optimizer = "sgd { momentum: 0.9 weight_decay: 0.1 }";
  plans.push_back(Small());
  plans.back().fp64 = true;
  for (const TinyPlan& plan : plans) ExpectAsOnTheCpu(plan, 2e-5);
}

// Values are rounded to bf16 and fp16 at different points on the two backends, so the results agree only roughly.
TEST(EmulatedCudaTest, HalfPrecisionLearnsWhatTheCpuLearns) {
  TinyPlan plan = Small();
  plan.bf16 = true;
  ExpectAsOnTheCpu(plan, 3e-3);
  plan = Small();
  plan.half = "fp16";
  plan.plan_fields = "loss_scale { initial: 1024 growth_interval: 2 }";
  ExpectAsOnTheCpu(plan, 1e-3);
}

// Both backends round factors alike, so only the order of sums differs. The difference is much smaller than the one
// between TF32 and fp32 products.
TEST(EmulatedCudaTest, ProductsInTf32LearnWhatTheCpuLearns) {
  TinyPlan plan = Small();
  plan.precision = "compute: TF32";
  ExpectAsOnTheCpu(plan, 1e-4);
  const Outcome tf32 = Must(TrainTiny(plan, OnEmulation()), "tf32");
  plan.precision = "";
  EXPECT_NE(tf32.losses, Must(TrainTiny(plan, OnEmulation()), "fp32").losses);
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

// Runs on streams with everything that a GPU run has except the GPU: device memory that the host must not touch,
// arenas, staged or shared transports. A missing wait shows for some seed.
TEST(EmulatedCudaTest, StreamsHaveOneLoss) {
  TinyPlan one = Small();
  one.schedule = "gpipe";
  one.layers = 4;
  const Outcome reference = Must(TrainTiny(one, OnEmulation()), one.Name());
  ASSERT_FALSE(reference.losses.empty());
  TinyPlan pipe = one, offload = one;
  pipe.pipe = 2;
  pipe.schedule = "zb-h1";
  offload.plan_fields = "offload { optimizer: true bucket_elements: 1500 }";
  for (const TinyPlan& plan : {one, pipe, offload}) {
    for (const char* transport : {"inproc", "loopback"}) {
      const absl::StatusOr<Program> program = CompileTiny(plan);
      ASSERT_TRUE(program.ok()) << program.status();
      const auto data = OpenTinyText(TinyTextPath(), *program);
      ASSERT_TRUE(data.ok()) << data.status();
      exec::RunOptions options;
      options.backend = &Deferred();
      options.device.ordinal = 17;
      options.collect_weights = true;
      const absl::StatusOr<exec::RunResult> result = exec::RunProgram(*program, **data, transport, options);
      ASSERT_TRUE(result.ok()) << plan.Name() << " over " << transport << ": " << result.status();
      ExpectSame(OutcomeOf(*result), reference, plan.Name() + " over " + transport);
    }
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
