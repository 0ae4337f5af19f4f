#include "simulator/runtime/runtime_steps.h"

#include "gtest/gtest.h"
#include "kernels/kernel_key.h"
#include "tests/parse_text.h"

namespace weft::sim {
namespace {

// Two kernels of 1 MB each, which take a millisecond each at 1 GB/s.
Program TwoKernels() {
  return Parse<Program>(R"(segments {
    name: "s"
    steps { name: "a" kernel: ADD stream: COMPUTE work { bytes: 1000000 dtype: FP32 } }
    steps { name: "b" kernel: RMS_NORM stream: COMPUTE work { bytes: 1000000 dtype: FP32 } } })");
}

Cluster Machine() {
  return Parse<Cluster>(
      R"(name: "c" device { memory_bytes_per_second: 1e9 launch_seconds: 1e-4 compute_capability: 80 })");
}

double Microseconds(RuntimeSteps* steps, int step, ActionKind kind, const Cluster& cluster) {
  const absl::StatusOr<Time> time = steps->Cost({0, step, kind, step}, cluster, {});
  EXPECT_TRUE(time.ok()) << time.status();
  return time.ok() ? 1e6 * ToSeconds(*time) : -1;
}

StepCostFn* Roofline() { return (*FindCostModel("roofline"))->cost; }

TEST(RuntimeSteps, NothingStatedNothingChanges) {
  const Program program = TwoKernels();
  const Cluster cluster = Machine();
  const Runtime runtime;
  RuntimeSteps steps(program, runtime, Roofline());
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, FORWARD, cluster), 1100);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 1, FORWARD, cluster), 1100);
}

TEST(RuntimeSteps, FormsMoveMoreBytesAndLaunchMoreKernels) {
  const Program program = TwoKernels();
  const Cluster cluster = Machine();
  const Runtime runtime = Parse<Runtime>(R"(kernels { kernel: "RMS_NORM" launches: 3 bytes: 4 time: 2 })");
  RuntimeSteps steps(program, runtime, Roofline());
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, FORWARD, cluster), 1100);
  // The kernel takes 100 + 4000 us, `time: 2` doubles that, and its two further launches take 100 us each.
  EXPECT_NEAR(Microseconds(&steps, 1, FORWARD, cluster), 8400, 1e-5);
}

TEST(RuntimeSteps, FactorsOfAProductAreCastBeforeIt) {
  // The product [200 x 300] [300 x 400] has factors of 60,000 and 120,000 elements.
  const Program program = Parse<Program>(R"(segments {
    name: "s"
    values { shape: 200 shape: 300 } values { shape: 300 shape: 400 } values { shape: 200 shape: 400 }
    steps { name: "p" kernel: MATMUL stream: COMPUTE inputs: [0, 1] outputs: 2
            work { flops: 48000000 bytes: 1000000 dtype: BF16 } } })");
  Cluster cluster = Machine();
  *cluster.mutable_device()->add_peaks() = Parse<Peak>("dtype: BF16 flops_per_second: 1e15");
  const Runtime plain = Parse<Runtime>(R"(kernels { kernel: "MATMUL" time: 0.5 })");
  RuntimeSteps alone(program, plain, Roofline());
  EXPECT_NEAR(Microseconds(&alone, 0, FORWARD, cluster), 550, 1e-5);
  const Runtime runtime = Parse<Runtime>(R"(kernels { kernel: "MATMUL" time: 0.5 factor_bytes: 5 })");
  RuntimeSteps steps(program, runtime, Roofline());
  // The casts of the two factors move 300,000 and 600,000 bytes, and each has its own launch.
  EXPECT_NEAR(Microseconds(&steps, 0, FORWARD, cluster), 550 + 400 + 700, 1e-5);
  const Runtime hosted =
      Parse<Runtime>(R"(kernels { kernel: "MATMUL" time: 0.5 factor_bytes: 5 } host { launch_seconds: 1.1e-3 })");
  RuntimeSteps bound(program, hosted, Roofline());
  // The host makes three launches.
  EXPECT_NEAR(Microseconds(&bound, 0, FORWARD, cluster), 3300, 1e-3);
}

TEST(RuntimeSteps, CastsPartsBeforeTheyAreGathered) {
  const Program program = Parse<Program>(R"(mesh { axes { name: "x" size: 4 } axes { name: "data" size: 2 } }
    segments { name: "s"
    values { operand: 0 shape: 50 shape: 300 } values { operand: 1 shape: 200 shape: 300 }
    values { operand: 2 shape: 300 shape: 400 } values { operand: 3 shape: 200 shape: 400 }
    steps { name: "g" kernel: GROUP_ALL_GATHER stream: COLLECTIVE inputs: 0 outputs: 1 collective { purpose: TENSOR } }
    steps { name: "p" kernel: MATMUL stream: COMPUTE inputs: [1, 2] outputs: 3
            work { flops: 48000000 bytes: 1000000 dtype: BF16 } } })");
  Cluster cluster = Machine();
  *cluster.mutable_device()->add_peaks() = Parse<Peak>("dtype: BF16 flops_per_second: 1e15");
  const Runtime runtime = Parse<Runtime>(
      R"(kernels { kernel: "MATMUL" time: 0.5 factor_bytes: 5 } kernels { kernel: "GROUP_ALL_GATHER" bytes: 0.5 })");
  RuntimeSteps steps(program, runtime, Roofline());
  // The casts move 75,000 and 600,000 bytes.
  EXPECT_NEAR(Microseconds(&steps, 1, FORWARD, cluster), 550 + 175 + 700, 1e-5);
}

TEST(RuntimeSteps, ProductsAtTheLossHaveATimeOfTheirOwn) {
  const Program program = Parse<Program>(R"(segments {
    name: "s"
    values { operand: 0 shape: 200 shape: 300 } values { operand: 1 shape: 300 shape: 400 }
    values { operand: 2 shape: 200 shape: 400 }
    steps { name: "p" kernel: MATMUL stream: COMPUTE inputs: [0, 1] outputs: 2
            work { flops: 48000000 bytes: 1000000 dtype: BF16 } }
    steps { name: "l" kernel: CROSS_ENTROPY stream: COMPUTE inputs: 2 outputs: 0
            work { bytes: 1000000 dtype: BF16 } } })");
  Cluster cluster = Machine();
  *cluster.mutable_device()->add_peaks() = Parse<Peak>("dtype: BF16 flops_per_second: 1e15");
  const Runtime runtime = Parse<Runtime>(R"(kernels { kernel: "MATMUL" time: 0.5 factor_bytes: 5 loss_time: 0.8 })");
  RuntimeSteps steps(program, runtime, Roofline());
  EXPECT_NEAR(Microseconds(&steps, 0, FORWARD, cluster), 880, 1e-5);
  const Runtime alike = Parse<Runtime>(R"(kernels { kernel: "MATMUL" time: 0.5 factor_bytes: 5 })");
  RuntimeSteps all(program, alike, Roofline());
  EXPECT_NEAR(Microseconds(&all, 0, FORWARD, cluster), 1650, 1e-5);
}

// The host launches no casts for products whose factors are not cast.
TEST(RuntimeSteps, TheHostLaunchesTheCastsThatThereAre) {
  const Program program = Parse<Program>(R"(segments {
    name: "s" operands { name: "x" } operands { name: "w" }
    values { operand: 0 shape: 200 shape: 300 } values { operand: 1 shape: 300 shape: 400 }
    values { operand: 0 offset: 64 shape: 200 shape: 400 }
    steps { name: "p" kernel: MATMUL stream: COMPUTE inputs: [0, 1] outputs: 2
            work { flops: 48000000 bytes: 1000000 dtype: BF16 } }
    steps { name: "l" kernel: CROSS_ENTROPY stream: COMPUTE inputs: 2 outputs: 0
            work { bytes: 1000000 dtype: BF16 } } }
    templates { buffers { name: "x" } buffers { name: "w" role: PARAM }
      body { id: 0 kind: FORWARD segment: 0 operands: [0, 1] } })");
  Cluster cluster = Machine();
  *cluster.mutable_device()->add_peaks() = Parse<Peak>("dtype: BF16 flops_per_second: 1e15");
  const auto sum = [&](const char* form) {
    const Runtime runtime =
        Parse<Runtime>(std::string("host { launch_seconds: 1e-2 } kernels { kernel: 'MATMUL' ") + form + " }");
    RuntimeSteps steps(program, runtime, Roofline());
    return Microseconds(&steps, 0, FORWARD, cluster) + Microseconds(&steps, 1, FORWARD, cluster);
  };
  EXPECT_NEAR(sum("factor_bytes: 5"), 40000, 1e-2);
  EXPECT_NEAR(sum("factor_bytes: 5 weights_cast_once: true"), 30000, 1e-2);
  EXPECT_NEAR(sum("factor_bytes: 5 loss_time: 0.8"), 20000, 1e-2);
}

// [200 x 300] [300 x 400]; the second factor is a weight.
TEST(RuntimeSteps, KeptWeightsAreNotCastAgain) {
  const Program program = Parse<Program>(R"(segments {
    name: "s" operands { name: "x" } operands { name: "w" }
    values { operand: 0 shape: 200 shape: 300 } values { operand: 1 shape: 300 shape: 400 }
    values { operand: 0 offset: 64 shape: 200 shape: 400 }
    steps { name: "p" kernel: MATMUL stream: COMPUTE inputs: [0, 1] outputs: 2
            work { flops: 48000000 bytes: 1000000 dtype: BF16 } } }
    templates { buffers { name: "x" } buffers { name: "w" role: PARAM }
      body { id: 0 kind: FORWARD segment: 0 operands: [0, 1] } })");
  Cluster cluster = Machine();
  *cluster.mutable_device()->add_peaks() = Parse<Peak>("dtype: BF16 flops_per_second: 1e15");
  const Runtime runtime =
      Parse<Runtime>(R"(kernels { kernel: "MATMUL" time: 0.5 factor_bytes: 5 weights_cast_once: true })");
  RuntimeSteps steps(program, runtime, Roofline());
  EXPECT_NEAR(Microseconds(&steps, 0, FORWARD, cluster), 550 + 400, 1e-5);
}

// The rank's own device decides whether weights are cast.
TEST(RuntimeSteps, WeightsAreCastWhereTheDeviceDoes) {
  Program program = Parse<Program>(R"(segments { name: "s" operands { name: "w" }
    values { name: "w" shape: 100 shape: 200 }
    steps { name: "cast w" kernel: CAST inputs: 0 work { bytes: 1 dtype: BF16 } } })");
  const Runtime runtime = Parse<Runtime>(
      R"(kernels { kernel: "MATMUL" factor_bytes: 2.5 weights_cast_once: true from_compute_capability: 80 })");
  RuntimeSteps steps(program, runtime, Roofline());
  Cluster cluster = Machine();
  // 20,000 elements for two products: 100 us for the launch, and 100 KB.
  EXPECT_NEAR(Microseconds(&steps, 0, FORWARD, cluster), 200, 1e-5);
  cluster.mutable_device()->set_compute_capability(70);
  EXPECT_EQ(Microseconds(&steps, 0, FORWARD, cluster), 0);
}

TEST(RuntimeSteps, FormsAreForDevices) {
  const Program program = TwoKernels();
  const Runtime runtime = Parse<Runtime>(R"(kernels { kernel: "ADD" time: 2 from_compute_capability: 90 }
                                           kernels { kernel: "RMS_NORM" time: 2 below_compute_capability: 90 })");
  RuntimeSteps steps(program, runtime, Roofline());
  Cluster cluster = Machine();
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, FORWARD, cluster), 1100);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 1, FORWARD, cluster), 2200);
  cluster.mutable_device()->set_compute_capability(90);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, FORWARD, cluster), 2200);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 1, FORWARD, cluster), 1100);
}

TEST(RuntimeSteps, TheHostShowsWhereTheDeviceIsFaster) {
  const Program program = TwoKernels();
  const Cluster cluster = Machine();
  // The host needs 2.2 ms for each of two launches, twice as long as the device needs for the kernels.
  Runtime runtime = Parse<Runtime>("host { launch_seconds: 2.2e-3 }");
  RuntimeSteps bound(program, runtime, Roofline());
  EXPECT_NEAR(Microseconds(&bound, 0, FORWARD, cluster), 2200, 1e-3);
  EXPECT_NEAR(Microseconds(&bound, 1, FORWARD, cluster), 2200, 1e-3);
  runtime.mutable_host()->set_launch_seconds(1e-3);
  RuntimeSteps free(program, runtime, Roofline());
  EXPECT_DOUBLE_EQ(Microseconds(&free, 0, FORWARD, cluster), 1100);
}

TEST(RuntimeSteps, WaitsStandBeforeTheFirstStep) {
  const Program program = TwoKernels();
  const Cluster cluster = Machine();
  const Runtime runtime = Parse<Runtime>("host { microbatch_seconds: 5e-4 step_seconds: 7e-4 }");
  RuntimeSteps steps(program, runtime, Roofline());
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, FORWARD, cluster), 1600);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 1, FORWARD, cluster), 1100);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, FORWARD_BACKWARD, cluster), 2100);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, OPTIMIZER_STEP, cluster), 1800);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, GRAD_NORM, cluster), 1100);
}

// The first step has nothing to compute, but the wait is still added to it.
TEST(RuntimeSteps, WaitsStandBeforeAStepThatTakesNoTime) {
  Program program = TwoKernels();
  program.mutable_segments(0)->mutable_steps(0)->clear_work();
  Cluster cluster = Machine();
  cluster.mutable_device()->clear_launch_seconds();
  cluster.mutable_host()->set_bytes_per_second(1e6);
  *program.add_templates() = Parse<Template>(R"(buffers { bytes: 300 }
      body { id: 0 kind: RECV destinations: 0 }
      body { id: 1 kind: FORWARD segment: 0 operands: 0 deps { action: 0 } })");
  const Runtime runtime = Parse<Runtime>("host { microbatch_seconds: 5e-4 step_seconds: 7e-4 } host_transport { }");
  RuntimeSteps steps(program, runtime, Roofline());
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, FORWARD, cluster), 800);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, OPTIMIZER_STEP, cluster), 700);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, GRAD_NORM, cluster), 0);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 1, FORWARD, cluster), 1000);
}

// Two updates of 1 and 3 MB alternate with two zeroings. They become two launches, and the first step has the cost of
// both.
TEST(RuntimeSteps, JoinedStepsAreTheirLaunches) {
  Program program = Parse<Program>(R"(segments {
    name: "s"
    steps { name: "a" kernel: SGD_STEP stream: COMPUTE work { bytes: 1000000 dtype: FP32 } }
    steps { name: "b" kernel: FILL stream: COMPUTE work { bytes: 500000 dtype: FP32 } }
    steps { name: "c" kernel: SGD_STEP stream: COMPUTE work { bytes: 3000000 dtype: FP32 } }
    steps { name: "d" kernel: FILL stream: COMPUTE work { bytes: 1500000 dtype: FP32 } }
    steps { name: "e" kernel: NORM_TOTAL stream: COMPUTE work { bytes: 1000 dtype: FP32 } } })");
  const std::vector<StepRange> ranges = {{0, 4, {{0, 2}, {1, 3}}}};
  const Cluster cluster = Machine();
  Runtime runtime;
  RuntimeSteps steps(program, runtime, Roofline());
  const auto microseconds = [&](int step) {
    const auto time = steps.Cost({0, step, OPTIMIZER_STEP, step, &ranges}, cluster, {});
    EXPECT_TRUE(time.ok()) << time.status();
    return time.ok() ? 1e6 * ToSeconds(*time) : -1;
  };
  EXPECT_NEAR(microseconds(0), 6200, 1e-5);
  for (const int step : {1, 2, 3}) EXPECT_EQ(microseconds(step), 0) << step;
  EXPECT_NEAR(microseconds(4), 101, 1e-5);
  // The host launches three kernels, not five: 9 ms for the 6.301 ms of the device.
  runtime.mutable_host()->set_launch_seconds(3e-3);
  RuntimeSteps bound(program, runtime, Roofline());
  const auto first = bound.Cost({0, 0, OPTIMIZER_STEP, 0, &ranges}, cluster, {});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_NEAR(1e6 * ToSeconds(*first), 6200 * 9 / 6.301, 1e-3);
}

// A launch runs at the measured rate of its largest step and has the overhead of one launch.
TEST(RuntimeSteps, AMeasuredLaunchGoesAtTheRateOfItsLargestStep) {
  const Program program = Parse<Program>(R"(segments {
    name: "s"
    values { dtype: FP32 shape: 4 } values { dtype: FP32 shape: 400 }
    steps { name: "a" kernel: FILL stream: COMPUTE outputs: 0 work { bytes: 16 dtype: FP32 } }
    steps { name: "b" kernel: FILL stream: COMPUTE outputs: 1 work { bytes: 1600 dtype: FP32 } } })");
  Cluster cluster = Machine();
  for (int step = 0; step < 2; ++step) {
    KernelRate* rate = cluster.mutable_device()->add_kernel_rates();
    rate->set_kernel(kernels::KernelKey(program.segments(0), program.segments(0).steps(step)));
    rate->set_dtype(FP32);
    rate->set_bytes_per_second(step == 0 ? 1e6 : 1e9);
    rate->set_overhead_seconds(1e-6);
  }
  const std::vector<StepRange> ranges = {{0, 2, {{0, 1}}}};
  const Runtime runtime;
  RuntimeSteps steps(program, runtime, Roofline());
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, CLEAR_GRADIENTS, cluster), 17);
  const auto joined = steps.Cost({0, 0, CLEAR_GRADIENTS, 0, &ranges}, cluster, {});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_DOUBLE_EQ(1e6 * ToSeconds(*joined), 1 + 1.616);
}

TEST(RuntimeSteps, DevicesJoinStepsFromACapabilityOn) {
  const Program program = TwoKernels();
  const Cluster cluster = Machine();
  const Runtime joins = Parse<Runtime>("joins_from_compute_capability: 80");
  const Runtime does_not;
  RuntimeSteps steps(program, joins, Roofline());
  Device device = cluster.device();
  EXPECT_TRUE(steps.Joins(device));
  EXPECT_FALSE(RuntimeSteps(program, does_not, Roofline()).Joins(device));
  for (const int older : {70, 0}) {
    device.set_compute_capability(older);
    EXPECT_FALSE(steps.Joins(device)) << older;
  }
}

TEST(RuntimeSteps, MessagesThroughTheHostAreCopiedOnTheStreamOfTheComputation) {
  Program program = TwoKernels();
  *program.add_templates() = Parse<Template>(R"(buffers { bytes: 300 }
      body { id: 0 kind: RECV destinations: 0 } body { id: 1 kind: FORWARD segment: 0 operands: 0 deps { action: 0 } })");
  Cluster cluster = Machine();
  cluster.mutable_host()->set_bytes_per_second(1e6);
  const Runtime runtime = Parse<Runtime>("name: 'gloo' host_transport { }");
  RuntimeSteps steps(program, runtime, Roofline());
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, FORWARD, cluster), 1400);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, FORWARD_BACKWARD, cluster), 1400);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 1, FORWARD, cluster), 1100);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, OPTIMIZER_STEP, cluster), 1100);
  cluster.clear_host();
  const absl::Status status = steps.Cost({0, 0, FORWARD, 0}, cluster, {}).status();
  EXPECT_NE(std::string(status.message()).find("cluster.host.bytes_per_second"), std::string::npos) << status;
}

}  // namespace
}  // namespace weft::sim
