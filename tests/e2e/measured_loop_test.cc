// The whole measurement loop on a device whose clock is arithmetic, driven as the CUDA backend drives a GPU (streams,
// events, device times): calibrate -> cluster file -> simulate -> run with a trace -> report. No formula of the
// simulator gives the kernels' times, so a prediction is right only if every step takes its measured time.
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cli/results/trace_file.h"
#include "executor/calibrate/calibrate_device.h"
#include "executor/run/run.h"
#include "executor/testing/clocked_device.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "proto/util/status.h"
#include "proto/util/units.h"
#include "proto/validate/validate.h"
#include "simulator/compare/compare.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/measured_rate.h"
#include "simulator/simulate.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

constexpr exec::CopySpeed kInside = {.start_ns = 700, .bytes_per_ns = 8};
constexpr exec::CopySpeed kHost = {.start_ns = 900, .bytes_per_ns = 2};

// Kernels of this kind take `slow_percent` percent of their usual time.
Kernel slow_kernel = KERNEL_UNSPECIFIED;
int64_t slow_percent = 100;

// Nanoseconds of a kernel. They depend on everything that may affect a kernel's time, in no smooth way: 2 us, plus 0.5
// to 2.5 us for each KiB.
int64_t KernelNs(const Step& step, absl::Span<const exec::TensorView> inputs,
                 absl::Span<const exec::TensorView> outputs) {
  uint64_t hash = 1469598103934665603u;
  const auto mix = [&](uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
  mix(step.kernel());
  mix(step.attributes().transpose_a() + 2 * step.attributes().transpose_b() + 4 * step.accumulate());
  mix(step.attributes().dropout() > 0);
  int64_t bytes = 0;
  for (const auto* views : {&inputs, &outputs}) {
    for (const exec::TensorView& view : *views) {
      int64_t size = DTypeBytes(view.dtype);
      for (const int64_t extent : view.shape) {
        size *= extent;
        mix(static_cast<uint64_t>(extent));
      }
      mix(view.dtype);
      bytes += size;
    }
  }
  // A copy to or from the host lists its bytes both as input and as output; they count once.
  if (step.stream() != COMPUTE) return kHost.start_ns + bytes / 2 / kHost.bytes_per_ns;
  const int64_t ns = 2000 + bytes * static_cast<int64_t>(512 + (hash >> 32) % 2048) / 1024;
  return step.kernel() == slow_kernel ? ns * slow_percent / 100 : ns;
}

// True if the device runs several steps as one launch, as GPU kernels do.
bool joins = false;

// Runs several steps as one launch, at the rate of the largest step. In a launch of a sum and a norm, the norm does not
// read again what the sum has just written.
class JoiningBackend : public exec::ClockedBackend {
 public:
  JoiningBackend(exec::ClockedDevice* device)
      : exec::ClockedBackend(device, exec::MakeCpuBackend(1), KernelNs), device_(*device) {}

  absl::StatusOr<std::unique_ptr<exec::StepRun>> PrepareRun(absl::Span<const exec::StepOfRun> steps) override {
    if (!joins) return std::unique_ptr<exec::StepRun>();
    auto launch = std::make_unique<Launch>(device_, cpu_.get());
    const exec::StepOfRun* largest = &steps[0];
    double bytes = 0;
    for (const exec::StepOfRun& step : steps) {
      launch->steps.push_back(step);
      bytes += static_cast<double>(step.step->work().bytes());
      if (step.step->work().bytes() > largest->step->work().bytes()) largest = &step;
    }
    const exec::TensorView& made = steps[0].outputs[0];
    for (const exec::TensorView& read : steps.back().inputs) {
      if (steps.size() > 2 || read.data != made.data) continue;
      int64_t size = DTypeBytes(read.dtype);
      for (const int64_t extent : read.shape) size *= extent;
      bytes -= static_cast<double>(size);
    }
    const double rate = static_cast<double>(KernelNs(*largest->step, largest->inputs, largest->outputs)) /
                        static_cast<double>(largest->step->work().bytes());
    launch->ns = std::llround(rate * bytes);
    return launch;
  }

 private:
  struct Launch : exec::StepRun {
    Launch(exec::ClockedDevice& device, exec::Backend* cpu) : device(device), cpu(cpu) {}

    absl::Status Run(const exec::StepContext& context) override {
      device.Spend(context.stream, ns);
      exec::StepContext own = context;
      for (const exec::StepOfRun& step : steps) {
        own.first_element = step.first_element;
        own.writes_norm = step.writes_norm;
        WEFT_RETURN_IF_ERROR(cpu->Run(*step.step, step.inputs, step.outputs, own));
      }
      return absl::OkStatus();
    }

    exec::ClockedDevice& device;
    exec::Backend* const cpu;
    std::vector<exec::StepOfRun> steps;
    int64_t ns = 0;
  };

  exec::ClockedDevice& device_;
  const std::unique_ptr<exec::Backend> cpu_ = exec::MakeCpuBackend(1);
};

const exec::BackendEntry& Clocked() {
  static const exec::BackendEntry entry = {
      "clocked",
      [](const exec::DeviceOptions&) -> absl::StatusOr<std::unique_ptr<exec::ComputeDevice>> {
        return std::make_unique<exec::ClockedDevice>(kInside, kHost);
      },
      [](exec::ComputeDevice* device, const exec::BackendOptions&) -> absl::StatusOr<std::unique_ptr<exec::Backend>> {
        return std::make_unique<JoiningBackend>(static_cast<exec::ClockedDevice*>(device));
      },
      "the CPU's kernels with times of their own"};
  return entry;
}

// Does what `weft calibrate -o FILE` does, and returns what simulate reads from the file.
absl::StatusOr<Cluster> CalibratedFor(const Program& program, int devices) {
  const auto device = *Clocked().open({});
  const auto backend = *Clocked().make(device.get(), {});
  exec::CalibrateDeviceOptions options;
  options.shapes = &exec::SmallShapes();
  options.seconds = 0.001;
  options.copy_bytes = 1 << 20;
  options.programs = {&program};
  std::string notes;
  options.on_note = [&](const std::string& note) { notes += note + "\n"; };
  WEFT_ASSIGN_OR_RETURN(Cluster cluster, exec::CalibrateDevice(device.get(), backend.get(), options));
  EXPECT_EQ(notes, "");
  cluster.set_devices_per_node(devices);
  // Calibration does not measure these figures.
  cluster.mutable_device()->set_name("clocked");
  cluster.mutable_device()->set_memory_bytes(int64_t{1} << 34);
  if (joins) cluster.mutable_device()->set_compute_capability(90);
  cluster.mutable_inter_node()->set_bytes_per_second(1e9);
  cluster.set_nics_per_node(1);
  const std::string path = testing::TempDir() + "/clocked.textproto";
  WEFT_RETURN_IF_ERROR(WriteFileAtomic(path, MessageToText(cluster)));
  Cluster read;
  WEFT_RETURN_IF_ERROR(ReadMessageInto(path, &read));
  WEFT_RETURN_IF_ERROR(Validate(read));
  return read;
}

absl::StatusOr<exec::RunResult> Run(const Program& program, const char* transport) {
  WEFT_ASSIGN_OR_RETURN(const auto data, OpenTinyText(TinyTextPath(), program));
  exec::RunOptions options;
  options.backend = &Clocked();
  options.trace_repetitions = 4;
  return exec::RunProgram(program, *data, transport, options);
}

// Writes the trace to a file and reads it back, as the commands do.
Trace WriteAndRead(const Trace& trace, const Program& program) {
  const std::string path = testing::TempDir() + "/" + trace.origin() + ".trace";
  EXPECT_TRUE(WriteTrace(trace, program, path).ok());
  const absl::StatusOr<Trace> back = ReadTrace(path);
  EXPECT_TRUE(back.ok()) << back.status();
  return back.ok() ? *back : Trace();
}

struct Loop {
  Trace predicted, measured;
  RunReport run;
  ComparisonReport report;
};

Loop RunLoop(const TinyPlan& plan, const char* transport, const Cluster* known = nullptr) {
  Loop loop;
  const absl::StatusOr<Program> program = CompileTiny(plan);
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return loop;
  absl::StatusOr<Cluster> cluster = known != nullptr ? *known : CalibratedFor(*program, plan.pipe * plan.data);
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  if (!cluster.ok()) return loop;
  sim::SimulateOptions options;
  options.cost = sim::BestCostModel(*cluster);
  options.trace = true;
  options.trace_repetitions = 4;
  const absl::StatusOr<sim::Simulation> simulation = sim::Simulate(*program, *cluster, options);
  EXPECT_TRUE(simulation.ok()) << simulation.status();
  const absl::StatusOr<exec::RunResult> result = Run(*program, transport);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!simulation.ok() || !result.ok()) return loop;
  loop.run = result->report;
  loop.predicted = WriteAndRead(*simulation->trace, *program);
  loop.measured = WriteAndRead(*result->trace, *program);
  EXPECT_TRUE(sim::ValidateTogether(loop.measured, *program).ok());
  const absl::StatusOr<ComparisonReport> report = sim::CompareTraces(loop.predicted, loop.measured, &*program);
  EXPECT_TRUE(report.ok()) << report.status();
  if (report.ok()) loop.report = *report;
  return loop;
}

double Difference(const ComparisonReport& report) {
  return report.first().iteration_seconds() - report.second().iteration_seconds();
}

std::string Sources(const ComparisonReport& report) {
  std::string text;
  for (const SourceComparison& row : report.sources()) text += row.ShortDebugString() + "\n";
  return text;
}

void ExpectAddsUp(const ComparisonReport& report) {
  double difference = 0, first = 0, kernels[2] = {0, 0};
  std::set<std::string> names;
  for (const SourceComparison& row : report.sources()) {
    names.insert(row.source());
    difference += row.first_seconds() - row.second_seconds();
    first += row.first_seconds();
  }
  EXPECT_EQ(names, (std::set<std::string>{"compute", "copies", "communication", "host", "waiting"}));
  EXPECT_NEAR(difference, Difference(report), 1e-15);
  EXPECT_NEAR(first, report.first().iteration_seconds(), 1e-15);
  for (const KernelComparison& row : report.kernels()) {
    kernels[0] += row.first_seconds();
    kernels[1] += row.second_seconds();
  }
  EXPECT_NEAR(kernels[0], report.sources(0).first_seconds(), 1e-15);
  EXPECT_NEAR(kernels[1], report.sources(0).second_seconds(), 1e-15);
}

TinyPlan Plan() {
  TinyPlan plan;
  plan.steps = 6;
  plan.batch = 4;
  plan.layers = 2;
  return plan;
}

TEST(MeasuredLoop, EveryStepTakesWhatWasMeasuredOfIt) {
  const absl::StatusOr<Program> program = CompileTiny(Plan());
  ASSERT_TRUE(program.ok()) << program.status();
  const absl::StatusOr<Cluster> cluster = CalibratedFor(*program, 1);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  for (const sim::StepRate& step : sim::RatesOfSteps(*program, cluster->device())) {
    EXPECT_EQ(step.rate.source, sim::RateSource::kSame) << step.key;
    EXPECT_EQ(step.rate.entry, step.key);
  }
  // Remove the rates that were measured for shapes. Then no step finds a rate for its shape, and only the kernels'
  // rates by work remain.
  Cluster other = *cluster;
  other.mutable_device()->clear_kernel_rates();
  for (const KernelRate& rate : cluster->device().kernel_rates()) {
    if (rate.kernel().find(' ') == std::string::npos) *other.mutable_device()->add_kernel_rates() = rate;
  }
  for (const sim::StepRate& step : sim::RatesOfSteps(*program, other.device())) {
    EXPECT_EQ(step.rate.source, sim::RateSource::kByWork) << step.key;
  }
}

TEST(MeasuredLoop, APredictionIsWhatTheDeviceDoes) {
  for (const std::string& fields : {std::string(), std::string("offload { optimizer: true bucket_elements: 1500 }")}) {
    SCOPED_TRACE(fields);
    TinyPlan plan = Plan();
    plan.plan_fields = fields;
    const Loop loop = RunLoop(plan, "inproc");
    ASSERT_GT(loop.report.sources_size(), 0);
    ExpectAddsUp(loop.report);
    // The tolerance allows for figures that the run copies to the host on the compute stream. The simulator does not
    // model these copies.
    EXPECT_LT(std::abs(loop.report.iteration_error()), 0.01) << Sources(loop.report);
    EXPECT_GT(loop.report.kernels_size(), 15);
    for (const KernelComparison& row : loop.report.kernels()) {
      EXPECT_LT(std::abs(row.error()), 1e-4) << row.kernel();
      EXPECT_GT(row.steps(), 0) << row.kernel();
    }
    for (const StepComparison& row : loop.report.steps()) {
      EXPECT_NEAR(row.first_seconds(), row.second_seconds(), 1e-4 * row.second_seconds())
          << row.segment() << row.step();
    }
    // Allocated bytes equal planned bytes, and run report and trace have the digest of the algorithms that were used.
    EXPECT_GT(loop.report.first().buffer_bytes(), 0);
    EXPECT_EQ(loop.report.first().buffer_bytes(), loop.report.second().buffer_bytes());
    EXPECT_EQ(loop.run.allocated_bytes(), loop.run.planned_bytes());
    EXPECT_EQ(loop.run.tuning_digest(), 0xabu);
    EXPECT_EQ(loop.measured.tuning_digest(), 0xabu);
  }
}

// The simulator predicts one launch where the device runs one launch; predicted and measured times agree step by step.
TEST(MeasuredLoop, LaunchesOfSeveralStepsToo) {
  for (const bool bf16 : {false, true}) {
    TinyPlan plan = Plan();
    plan.bf16 = bf16;
    joins = true;
    const Loop loop = RunLoop(plan, "inproc");
    joins = false;
    ASSERT_GT(loop.report.sources_size(), 0);
    ExpectAddsUp(loop.report);
    EXPECT_LT(std::abs(loop.report.iteration_error()), 0.01) << Sources(loop.report);
    int together = 0;
    for (const StepComparison& row : loop.report.steps()) {
      EXPECT_NEAR(row.first_seconds(), row.second_seconds(), 1e-4 * row.second_seconds() + 1e-9 * row.count())
          << row.segment() << row.step();
      together += row.second_seconds() == 0;
    }
    // Counts the steps after the first of each launch: 4 for each of 28 tensors, and the steps of 5 norms with their
    // sums.
    EXPECT_GT(together, 4 * 27);
    for (const KernelComparison& row : loop.report.kernels()) EXPECT_LT(std::abs(row.error()), 1e-3) << row.kernel();
  }
}

TEST(MeasuredLoop, RanksOnOneDeviceToo) {
  TinyPlan plan = Plan();
  plan.pipe = 2;
  const Loop loop = RunLoop(plan, "loopback");
  ASSERT_GT(loop.report.sources_size(), 0);
  ExpectAddsUp(loop.report);
  EXPECT_LT(std::abs(loop.report.iteration_error()), 0.05);
  for (const KernelComparison& row : loop.report.kernels()) EXPECT_LT(std::abs(row.error()), 1e-4) << row.kernel();
}

// One kernel has become slower since calibration: the report names it and its share of the error.
TEST(MeasuredLoop, NamesTheKernelThatIsOff) {
  const absl::StatusOr<Program> program = CompileTiny(Plan());
  ASSERT_TRUE(program.ok()) << program.status();
  const absl::StatusOr<Cluster> cluster = CalibratedFor(*program, 1);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  slow_kernel = GELU_BACKWARD;
  slow_percent = 150;
  const Loop loop = RunLoop(Plan(), "inproc", &*cluster);
  slow_kernel = KERNEL_UNSPECIFIED;
  ASSERT_GT(loop.report.kernels_size(), 1);
  ExpectAddsUp(loop.report);
  EXPECT_LT(loop.report.iteration_error(), 0);
  EXPECT_EQ(loop.report.kernels(0).kernel(), "GELU_BACKWARD");
  EXPECT_NEAR(loop.report.kernels(0).error(), -1.0 / 3, 1e-3);
  EXPECT_GT(loop.report.kernels(0).share(), 0.999);
  EXPECT_EQ(loop.report.steps(0).kernel(), "GELU_BACKWARD");
  double largest = 0;
  for (const SourceComparison& row : loop.report.sources()) largest = std::max(largest, row.share());
  EXPECT_EQ(loop.report.sources(0).source(), "compute");
  EXPECT_EQ(loop.report.sources(0).share(), largest);
}

}  // namespace
}  // namespace weft
