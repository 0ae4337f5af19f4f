// Launches of compiled plans: a prediction, which reads the steps of the program (PlacedStepsOf), counts the same
// launches that the executor requests from a backend.
#include "proto/util/step_runs.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/run/run.h"
#include "executor/testing/deferred_device.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

// One text for each launch of several steps of any rank and action: the names of its steps. Sorted.
using Launches = std::vector<std::string>;

std::mutex mutex;
Launches asked_for;

// Runs the CPU's kernels. PrepareRun prepares nothing but records the request.
class NotingBackend : public exec::Backend {
 public:
  absl::Status Run(const Step& step, absl::Span<const exec::TensorView> inputs,
                   absl::Span<const exec::TensorView> outputs, const exec::StepContext& context) override {
    return cpu_->Run(step, inputs, outputs, context);
  }
  absl::StatusOr<std::unique_ptr<exec::StepRun>> PrepareRun(absl::Span<const exec::StepOfRun> steps) override {
    std::string names;
    for (const exec::StepOfRun& step : steps) absl::StrAppend(&names, step.step->name(), " ");
    const std::lock_guard<std::mutex> lock(mutex);
    asked_for.push_back(std::move(names));
    return std::unique_ptr<exec::StepRun>();
  }

 private:
  const std::unique_ptr<exec::Backend> cpu_ = exec::MakeCpuBackend(1);
};

exec::RunOptions Noting(bool deferred) {
  static const exec::BackendEntry on_host = {
      "noting",
      [](const exec::DeviceOptions&) -> absl::StatusOr<std::unique_ptr<exec::ComputeDevice>> {
        return exec::MakeHostDevice();
      },
      [](exec::ComputeDevice*, const exec::BackendOptions&) -> absl::StatusOr<std::unique_ptr<exec::Backend>> {
        return std::make_unique<NotingBackend>();
      },
      "notes runs"};
  static const exec::BackendEntry on_device = {
      "noting deferred",
      [](const exec::DeviceOptions& options) -> absl::StatusOr<std::unique_ptr<exec::ComputeDevice>> {
        return std::make_unique<exec::DeferredDevice>(static_cast<uint64_t>(options.ordinal));
      },
      [](exec::ComputeDevice* device, const exec::BackendOptions&) -> absl::StatusOr<std::unique_ptr<exec::Backend>> {
        return exec::MakeDeferredBackend(static_cast<exec::DeferredDevice*>(device), std::make_unique<NotingBackend>());
      },
      "notes runs"};
  exec::RunOptions options;
  options.backend = deferred ? &on_device : &on_host;
  return options;
}

Launches LaunchesOf(const Program& program) {
  Launches launches;
  for (int rank = 0; rank < MeshRanks(program.mesh()); ++rank) {
    const Template& t = program.templates(TemplateOfRank(program, rank));
    for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
      for (const Action& action : *list) {
        for (const StepRange& range : FindStepRuns(action.kind(), PlacedStepsOf(program, t, action))) {
          for (const std::vector<int>& launch : range.launches) {
            if (launch.size() < 2) continue;
            std::string& names = launches.emplace_back();
            for (const int step : launch) {
              absl::StrAppend(&names, program.segments(action.segment()).steps(step).name(), " ");
            }
          }
        }
      }
    }
  }
  std::sort(launches.begin(), launches.end());
  return launches;
}

void ExpectAgreement(const TinyPlan& plan) {
  SCOPED_TRACE(plan.Name());
  const absl::StatusOr<Program> program = CompileTiny(plan);
  ASSERT_TRUE(program.ok()) << program.status();
  const Launches expected = LaunchesOf(*program);
  EXPECT_FALSE(expected.empty());
  for (const bool deferred : {false, true}) {
    asked_for.clear();
    const auto result = Train(*program, Noting(deferred));
    ASSERT_TRUE(result.ok()) << result.status();
    std::sort(asked_for.begin(), asked_for.end());
    EXPECT_EQ(asked_for, expected) << (deferred ? "deferred" : "host");
  }
}

TinyPlan Small() {
  TinyPlan plan;
  plan.steps = 1;
  plan.layers = 2;
  plan.batch = 4;
  plan.dropout = 0;
  return plan;
}

TEST(StepRunsAgreementTest, PredictedLaunchesAreTheExecutors) {
  ExpectAgreement(Small());
  TinyPlan plan = Small();
  plan.family = "llama";
  plan.pipe = 2;
  plan.bf16 = true;
  ExpectAgreement(plan);
  plan = Small();
  plan.exact = true;
  plan.data = 2;
  ExpectAgreement(plan);
  plan = Small();
  plan.plan_fields = "offload { optimizer: true }";
  ExpectAgreement(plan);
  plan = Small();
  plan.mesh = "x2 z2";
  plan.microbatch = 2;
  plan.recompute = true;
  ExpectAgreement(plan);
  plan = Small();
  plan.plan_fields = "zero { stage: 3 }";
  plan.data = 2;
  ExpectAgreement(plan);
}

// In both directions, the residual stream's sums join their norms. A bias gradient joins the gradient of the activation
// after it. An optimizer step has one launch for each kind of work.
TEST(StepRunsAgreementTest, APlansLaunches) {
  const absl::StatusOr<Program> program = CompileTiny(Small());
  ASSERT_TRUE(program.ok()) << program.status();
  int norms = 0, updates = 0;
  for (const std::string& names : LaunchesOf(*program)) {
    (std::count(names.begin(), names.end(), ' ') == 2 ? norms : updates) += 1;
  }
  // Joined launches for each of 4 microbatches: in the forward the embedding's sum and two sums in each of 2 layers, in
  // the backward two sums in each layer, and the activation of each layer.
  EXPECT_EQ(norms, 4 * (5 + 4 + 2));
  // One launch each for norms, scaling, updates and zeroing.
  EXPECT_EQ(updates, 4);
}

}  // namespace
}  // namespace weft
