// Checks the programs whose speed is measured on GPUs (tools/gpu-check) against a calibrated cluster: calibration has a
// case for every kernel that occurs, and a prediction uses for every step the time measured for that step.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "catalog/load.h"
#include "compiler/models/load_model.h"
#include "executor/calibrate/calibrate_program.h"
#include "executor/calibrate/calibrate_rates.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "kernels/kernel_key.h"
#include "planner/compile.h"
#include "proto/util/step_runs.h"
#include "simulator/cost/measured_rate.h"
#include "simulator/simulate.h"

namespace weft {
namespace {

struct SpeedRow {
  std::string name, model;
  int64_t sequence, microbatch;
  std::string plan;
};

void PrintTo(const SpeedRow& row, std::ostream* out) { *out << row.name; }

constexpr char kBf16[] = "precision { compute: BF16 }";
constexpr char kBf16Moments[] = "precision { compute: BF16 grads: BF16 moments: BF16 }";
constexpr char kBf16Gradients[] = "precision { compute: BF16 grads: BF16 }";

std::vector<SpeedRow> SpeedRows() {
  return {{"gpt2_xl", "gpt2-xl", 1024, 16, kBf16},
          {"qwen_1_5b", "qwen2.5-1.5b", 1024, 16, kBf16},
          {"qwen_3b", "qwen2.5-3b", 1024, 8, kBf16},
          {"qwen_7b", "qwen2.5-7b", 1024, 4, kBf16Gradients},
          {"llama_8b", "llama-3.1-8b", 8192, 1, absl::StrCat(kBf16Moments, " recompute { mode: FIT }")}};
}

template <typename T>
T Parse(const std::string& text) {
  T message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// Made-up seconds that depend on every property of the case; microseconds to milliseconds.
double Seconds(const exec::KernelCase& kernel) {
  uint64_t hash = 1469598103934665603u;
  const auto mix = [&](uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
  mix(kernel.step.kernel());
  mix(kernel.step.attributes().transpose_a() + 2 * kernel.step.attributes().transpose_b());
  for (const auto* tensors : {&kernel.inputs, &kernel.outputs}) {
    for (const exec::CaseTensor& tensor : *tensors) {
      mix(tensor.dtype);
      for (const int64_t extent : tensor.shape) mix(static_cast<uint64_t>(extent));
    }
  }
  return 1e-6 * static_cast<double>(2 + (hash >> 40) % 3000);
}

class SpeedRowRates : public testing::TestWithParam<SpeedRow> {};
INSTANTIATE_TEST_SUITE_P(Rows, SpeedRowRates, testing::ValuesIn(SpeedRows()),
                         [](const auto& info) { return info.param.name; });

TEST_P(SpeedRowRates, EveryStepTakesItsOwn) {
  const SpeedRow& row = GetParam();
  const auto model = LoadModel(row.model);
  ASSERT_TRUE(model.ok()) << model.status();
  absl::StatusOr<Cluster> cluster = LoadCluster("dgx-h200");
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const auto recipe =
      Parse<Recipe>(absl::StrCat("sequence_length: ", row.sequence, " global_batch_sequences: ", 65536 / row.sequence,
                                 " microbatch_sequences: ", row.microbatch, " dropout: 0"));
  const absl::StatusOr<Program> program = planner::CompilePlan(*model, recipe, Parse<Plan>(row.plan), *cluster, {});
  ASSERT_TRUE(program.ok()) << program.status();

  // Measures a device as weft calibrate does, with made-up times.
  exec::MeasureKernels measure;
  std::map<std::string, double> seconds;
  measure.seconds = [](const exec::KernelCase& kernel) -> absl::StatusOr<double> { return Seconds(kernel); };
  const std::vector<exec::ProgramCase> cases = exec::CasesOf({&*program});
  for (const exec::ProgramCase& one : cases) seconds[one.key] = Seconds(one.kernel);
  std::vector<std::string> left_out;
  Device& device = *cluster->mutable_device();
  device.clear_kernel_rates();
  device.clear_peaks();
  ASSERT_TRUE(exec::MeasureRates(exec::LargeShapes(), measure, &device).ok());
  const Device by_work = device;
  ASSERT_TRUE(exec::MeasureCases(cases, measure, &device, &left_out).ok());
  EXPECT_TRUE(left_out.empty());

  std::set<Kernel> kernels;
  for (const sim::StepRate& step : sim::RatesOfSteps(*program, device)) {
    EXPECT_EQ(step.rate.source, sim::RateSource::kSame) << step.key;
    EXPECT_EQ(step.rate.entry, step.key);
    kernels.insert(step.kernel);
  }
  // The program must have the kernels of a transformer's training iteration: products, attention, norms, losses, the
  // optimizer.
  EXPECT_GE(kernels.size(), 15u);
  for (const Kernel kernel : {MATMUL, ATTENTION, ATTENTION_BACKWARD, CROSS_ENTROPY, ADAMW}) {
    EXPECT_EQ(kernels.count(kernel), 1u) << Kernel_Name(kernel);
  }
  EXPECT_TRUE(sim::NotesOnRates(*program, device).empty());
  // A cluster calibrated with other programs still has a rate by work for every kernel.
  for (const sim::StepRate& step : sim::RatesOfSteps(*program, by_work)) {
    EXPECT_EQ(step.rate.source, sim::RateSource::kByWork) << step.key;
  }

  // The busy time of a repetition is the sum of the measured times of its steps. All steps of one launch run at the
  // rate of the launch's largest step.
  double busy = 0;
  int joined = 0;
  for (const Action& action : program->templates(0).body()) {
    if (action.kind() == SEND || action.kind() == RECV || action.kind() == ALL_REDUCE) continue;
    const Segment& segment = program->segments(action.segment());
    const std::vector<StepRange> ranges =
        FindStepRuns(action.kind(), PlacedStepsOf(*program, program->templates(0), action));
    for (int s = 0; s < segment.steps_size(); ++s) {
      if (segment.steps(s).stream() == COMPUTE && RangeOf(ranges, s) == nullptr) {
        busy += seconds.at(kernels::KernelKey(segment, segment.steps(s)));
      }
    }
    for (const StepRange& range : ranges) {
      joined += range.count;
      for (const std::vector<int>& launch : range.launches) {
        const auto bytes = [&](int step) { return segment.steps(step).work().bytes(); };
        const int largest =
            *std::max_element(launch.begin(), launch.end(), [&](int a, int b) { return bytes(a) < bytes(b); });
        const Step one = AsOneStep(segment, launch);
        busy += seconds.at(kernels::KernelKey(segment, segment.steps(largest))) *
                static_cast<double>(one.work().bytes()) / static_cast<double>(bytes(largest));
      }
    }
  }
  // Launches join four steps per tensor, and two per norm in each microbatch.
  EXPECT_GT(joined, 1000);
  sim::SimulateOptions options;
  options.cost = sim::BestCostModel(*cluster);
  const absl::StatusOr<sim::Simulation> simulation = sim::Simulate(*program, *cluster, options);
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  EXPECT_NEAR(simulation->report.per_rank(0).busy_seconds(), busy, 1e-6 * busy);
}

}  // namespace
}  // namespace weft
