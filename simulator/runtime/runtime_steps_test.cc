#include "simulator/runtime/runtime_steps.h"

#include "gtest/gtest.h"
#include "proto/io.h"

namespace weft {
namespace {

template <typename T>
T Read(const std::string& text) {
  T message;
  const absl::Status read = ParseMessage(text, "test", &message);
  EXPECT_TRUE(read.ok()) << read;
  return message;
}

// Two kernels of 1 MB each: a millisecond each at 1 GB/s.
Program TwoKernels() {
  return Read<Program>(R"(segments {
    name: "s"
    steps { name: "a" kernel: ADD stream: COMPUTE work { bytes: 1000000 dtype: FP32 } }
    steps { name: "b" kernel: RMS_NORM stream: COMPUTE work { bytes: 1000000 dtype: FP32 } } })");
}

Cluster Machine() {
  return Read<Cluster>(
      R"(name: "c" device { memory_bytes_per_second: 1e9 launch_seconds: 1e-4 compute_capability: 80 })");
}

double Microseconds(RuntimeSteps* steps, int step, ActionKind kind, const Cluster& cluster) {
  const absl::StatusOr<Time> time = steps->Cost(0, step, kind, step, cluster, {});
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
  const Runtime runtime = Read<Runtime>(R"(kernels { kernel: "RMS_NORM" launches: 3 bytes: 4 time: 2 })");
  RuntimeSteps steps(program, runtime, Roofline());
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, FORWARD, cluster), 1100);
  // 2 x (100 + 4000) and two more launches.
  EXPECT_NEAR(Microseconds(&steps, 1, FORWARD, cluster), 8400, 1e-5);
}

TEST(RuntimeSteps, FormsAreForDevices) {
  const Program program = TwoKernels();
  const Runtime runtime = Read<Runtime>(R"(kernels { kernel: "ADD" time: 2 from_compute_capability: 90 }
                                           kernels { kernel: "RMS_NORM" time: 2 below_compute_capability: 90 })");
  RuntimeSteps steps(program, runtime, Roofline());
  Cluster cluster = Machine();
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, FORWARD, cluster), 1100);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 1, FORWARD, cluster), 2200);
  cluster.mutable_device()->set_compute_capability(90);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, FORWARD, cluster), 2200);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 1, FORWARD, cluster), 1100);
}

TEST(RuntimeSteps, TheHostShowsWhereTheDeviceHasLessToDo) {
  const Program program = TwoKernels();
  const Cluster cluster = Machine();
  // 2 launches of 2.2 ms: twice what the device needs.
  Runtime runtime = Read<Runtime>("host { launch_seconds: 2.2e-3 }");
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
  const Runtime runtime = Read<Runtime>("host { microbatch_seconds: 5e-4 step_seconds: 7e-4 }");
  RuntimeSteps steps(program, runtime, Roofline());
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, FORWARD, cluster), 1600);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 1, FORWARD, cluster), 1100);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, FORWARD_BACKWARD, cluster), 2100);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, OPTIMIZER_STEP, cluster), 1800);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, GRAD_NORM, cluster), 1100);
}

TEST(RuntimeSteps, MessagesThroughTheHostAreCopiedOnTheStreamOfTheComputation) {
  Program program = TwoKernels();
  *program.add_templates() = Read<Template>(R"(buffers { bytes: 300 }
      body { id: 0 kind: RECV destinations: 0 } body { id: 1 kind: FORWARD segment: 0 deps { action: 0 } })");
  Cluster cluster = Machine();
  cluster.mutable_host()->set_bytes_per_second(1e6);
  const Runtime runtime = Read<Runtime>("name: 'gloo' host_transport { }");
  RuntimeSteps steps(program, runtime, Roofline());
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, FORWARD, cluster), 1400);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, FORWARD_BACKWARD, cluster), 1400);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 1, FORWARD, cluster), 1100);
  EXPECT_DOUBLE_EQ(Microseconds(&steps, 0, OPTIMIZER_STEP, cluster), 1100);
  cluster.clear_host();
  const absl::Status status = steps.Cost(0, 0, FORWARD, 0, cluster, {}).status();
  EXPECT_NE(std::string(status.message()).find("cluster.host.bytes_per_second"), std::string::npos) << status;
}

}  // namespace
}  // namespace weft
