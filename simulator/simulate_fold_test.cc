// Checks that simulations with and without folding give the same report and the same trace: on clusters that are alike
// everywhere, and with slow or other devices, slow interfaces, several placements, or load.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "simulator/network/network_model.h"
#include "simulator/simulate.h"
#include "simulator/testing/test_programs.h"

namespace weft::sim {
namespace {

Cluster BaseCluster() {
  Cluster cluster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        name: "base"
        device {
          name: "gpu"
          memory_bytes: 100000
          memory_bytes_per_second: 1e12
          peaks { dtype: BF16 flops_per_second: 1e14 }
          launch_seconds: 1e-6
          tiles { multiprocessors: 100 }
          communication_load { multiprocessors: 20 memory_bytes_per_second: 2e11 }
        }
        nodes: 16
        devices_per_node: 4
        intra_node { bytes_per_second: 2e11 latency_seconds: 2e-6 }
        inter_node { bytes_per_second: 2e10 latency_seconds: 5e-6 overhead_seconds: 1e-6 }
        nics_per_node: 2
        host { bytes_per_second: 1e10 }
      )pb",
      &cluster));
  return cluster;
}

const std::map<std::string, std::string>& Variants() {
  static const auto& variants = *new std::map<std::string, std::string>{
      {"alike", ""},
      {"slow device", "other_devices { nodes: 1 devices: 2 speed: 0.7 }"},
      {"slow node", "other_devices { nodes: 2 speed: 0.9 }"},
      {"other kind", R"(other_devices { nodes: 1 device { name: "old" memory_bytes: 50000 memory_bytes_per_second: 5e11
                        peaks { dtype: BF16 flops_per_second: 5e13 } launch_seconds: 2e-6 } })"},
      {"slow interface", "other_interfaces { nodes: 1 interfaces: 0 fraction: 0.5 }"},
      {"interface down", "other_interfaces { nodes: 3 interfaces: 1 down: true }"},
      {"nodes chosen",
       "placement { nodes: 9 nodes: 4 nodes: 5 nodes: 0 nodes: 1 nodes: 2 nodes: 3 nodes: 6 nodes: 7 "
       "nodes: 8 nodes: 10 nodes: 11 }"},
      {"half of each node",
       "placement { devices: 0 devices: 2 nodes: 0 nodes: 1 nodes: 2 nodes: 3 nodes: 4 nodes: 5 "
       "nodes: 6 nodes: 7 nodes: 8 nodes: 9 nodes: 10 nodes: 11 nodes: 12 nodes: 13 nodes: 14 "
       "nodes: 15 }"},
      {"shared hosts", "compute_slots_per_node: 3"},
  };
  return variants;
}

Program TestProgram(uint64_t seed) {
  Program program = RandomEngineProgram(seed);
  int64_t ranks = 1;
  for (const MeshAxis& axis : program.mesh().axes()) ranks *= axis.name() == "x" ? 1 : axis.size();
  for (MeshAxis& axis : *program.mutable_mesh()->mutable_axes()) {
    if (axis.name() == "x") axis.set_size(ranks > 4 ? 4 : 8);
  }
  for (Segment& segment : *program.mutable_segments()) {
    int64_t flops = 1;
    for (Step& step : *segment.mutable_steps()) {
      if (step.stream() == COLLECTIVE) continue;
      step.mutable_work()->set_dtype(BF16);
      step.mutable_work()->set_bytes(1'000'000 * ++flops);
      if (step.stream() == COMPUTE) step.mutable_work()->set_flops(300'000'000 * flops);
    }
  }
  program.mutable_precision()->set_compute(BF16);
  return program;
}

// Simulates with folding. Expects the same result without folding, except for the number of simulated ranks.
absl::StatusOr<Simulation> ExpectSameUnfolded(const Program& program, const Cluster& cluster,
                                              const std::string& network) {
  SimulateOptions options = {.network = network, .trace = true};
  const auto with = Simulate(program, cluster, options);
  options.fold = false;
  const auto without = Simulate(program, cluster, options);
  EXPECT_EQ(with.status(), without.status());
  if (!with.ok() || !without.ok()) return with;
  SimulationReport one = with->report, other = without->report;
  EXPECT_EQ(other.simulated_ranks(), other.ranks());
  one.clear_simulated_ranks();
  other.clear_simulated_ranks();
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(one, other));
  EXPECT_EQ(with->trace->SerializeAsString(), without->trace->SerializeAsString());
  return with;
}

TEST(SimulateFolded, ReportsAndTracesAreTheSame) {
  // For each variant, the number of simulations in which some ranks were not simulated themselves.
  std::map<std::string, int> folded;
  for (const auto& [name, text] : Variants()) {
    Cluster cluster = BaseCluster();
    ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString(text, &cluster)) << name;
    for (const NetworkModelEntry& network : NetworkModels()) {
      for (uint64_t seed = 0; seed < 12; ++seed) {
        SCOPED_TRACE(testing::Message() << name << ", network " << network.name << ", seed " << seed);
        const Program program = TestProgram(seed);
        const auto simulation = ExpectSameUnfolded(program, cluster, std::string(network.name));
        if (!simulation.ok()) continue;
        folded[name] += simulation->report.simulated_ranks() < simulation->report.ranks();
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_EQ(folded["shared hosts"], 0);
  for (const auto& [name, text] : Variants()) {
    if (name == "shared hosts") continue;
    EXPECT_GT(folded[name], 0) << name;
  }
}

// Appends a sum of elements over x to a segment that has no values yet.
void AddSumOverX(Segment& segment, int64_t elements) {
  segment.add_values()->set_dtype(BF16);
  segment.mutable_values(0)->add_shape(elements);
  Step& sum = *segment.add_steps();
  sum.set_stream(COLLECTIVE);
  sum.set_kernel(GROUP_ALL_REDUCE);
  sum.add_inputs(0);
  sum.add_outputs(0);
  sum.mutable_collective()->mutable_group()->add_axes()->set_axis("x");
  sum.mutable_collective()->set_purpose(TENSOR);
  sum.mutable_collective()->set_algorithm("ring");
}

// A program with 4 stages x 8 replicas x 4 ranks on x; `axes` has the axes innermost first. The program has transfers
// between stages, sums of gradients over replicas, and a sum over x in every segment.
Program TrainingProgram(const std::vector<std::string>& axes) {
  Program program = GPipeProgram(/*ranks=*/4, /*microbatches=*/3, /*bytes=*/5'000'000);
  program.mutable_precision()->set_compute(BF16);
  program.mutable_mesh()->clear_axes();
  for (const std::string& name : axes) {
    MeshAxis* axis = program.mutable_mesh()->add_axes();
    axis->set_name(name);
    axis->set_size(name == "data" ? 8 : 4);
  }
  for (Segment& segment : *program.mutable_segments()) {
    Work& work = *segment.mutable_steps(0)->mutable_work();
    work.set_dtype(BF16);
    work.set_flops(3'000'000'000);
    AddSumOverX(segment, 1'000'003);
  }
  AddGradientSync(program);
  return program;
}

// Folding of flows on every fabric, with everything in flight on it. Folding is exact even if many different flows
// share links, and leaves out at least half of the ranks if the machine is regular. There are 32 nodes of 4 ranks.
TEST(SimulateFolded, FlowsOnEveryFabric) {
  const std::map<std::string, std::string> fabrics = {
      {"non blocking", ""},
      {"fat tree", "fabric { kind: FAT_TREE nodes_per_switch: 4 hop_latency_seconds: 3e-7 }"},
      {"tapered", "fabric { kind: FAT_TREE nodes_per_switch: 8 oversubscription: 3 hop_latency_seconds: 3e-7 }"},
      {"rails", "fabric { kind: RAIL_OPTIMISED nodes_per_switch: 8 oversubscription: 2 hop_latency_seconds: 3e-7 }"},
      {"dragonfly", "fabric { kind: DRAGONFLY nodes_per_switch: 8 oversubscription: 4 hop_latency_seconds: 3e-7 }"},
      {"torus", "fabric { kind: TORUS torus: 8 torus: 4 hop_latency_seconds: 1e-7 }"},
      {"bridges", "intra_node { kind: PCIE } node_links { devices_per_bridge: 2 bridge { bytes_per_second: 3e10 } }"},
      {"pairs", "node_links { all_pairs: true }"},
  };
  const std::map<std::string, std::string> wears = {
      {"alike", ""},
      {"slow interface", "other_interfaces { nodes: 5 interfaces: 0 fraction: 0.5 }"},
      {"slow device", "other_devices { nodes: 9 devices: 1 speed: 0.8 }"},
      {"shuffled",
       "placement { nodes: [30, 2, 17, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 3, 18, 19, 20, 21, 22,"
       " 23, 24, 25, 26, 27, 28, 29, 0, 31, 1] }"},
  };
  for (const auto& axes :
       {std::vector<std::string>{"x", "data", "pipe"}, {"x", "pipe", "data"}, {"data", "x", "pipe"}}) {
    const Program program = TrainingProgram(axes);
    for (const auto& [fabric, fabric_text] : fabrics) {
      for (const auto& [wear, wear_text] : wears) {
        SCOPED_TRACE(testing::Message() << axes[0] << " innermost, then " << axes[1] << "; " << fabric << ", " << wear);
        Cluster cluster = BaseCluster();
        cluster.set_nodes(32);
        ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString(fabric_text + "\n" + wear_text, &cluster));
        const auto simulation = ExpectSameUnfolded(program, cluster, "flow");
        ASSERT_TRUE(simulation.ok()) << simulation.status();
        if (wear == "alike") {
          EXPECT_LE(simulation->report.simulated_ranks(), simulation->report.ranks() / 2);
        }
      }
    }
  }
}

// One slow device of many makes the repetition longer by the extra time of its own steps.
TEST(SimulateFolded, ASlowDeviceHoldsItsPipelineUp) {
  const Program program = GPipeProgram(/*ranks=*/1, /*microbatches=*/2, /*bytes=*/100);
  Program replicated = program;
  MeshAxis* axis = replicated.mutable_mesh()->add_axes();
  axis->set_name("data");
  axis->set_size(8);
  Cluster cluster = BaseCluster();
  OtherDevices* slow = cluster.add_other_devices();
  slow->add_nodes(1);
  slow->add_devices(3);
  slow->set_speed(0.5);
  const auto simulation = Simulate(replicated, cluster, {.cost = "unit"});
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  EXPECT_EQ(simulation->report.simulated_ranks(), 2);
  EXPECT_DOUBLE_EQ(simulation->report.per_rank(0).busy_seconds(), 6e-6);
  EXPECT_DOUBLE_EQ(simulation->report.per_rank(7).busy_seconds(), 12e-6);
  EXPECT_DOUBLE_EQ(simulation->report.makespan_seconds(), 12e-6);
}

// The fit check uses the device with the least memory left.
TEST(SimulateFolded, EveryDeviceMustHaveRoom) {
  Program program = GPipeProgram(/*ranks=*/2, /*microbatches=*/2, /*bytes=*/100);
  program.mutable_templates(0)->set_device_arena_bytes(60000);
  program.mutable_templates(1)->set_device_arena_bytes(40000);
  Cluster cluster = BaseCluster();
  OtherDevices* old = cluster.add_other_devices();
  old->add_nodes(0);
  old->add_devices(1);
  *old->mutable_device() = cluster.device();
  old->mutable_device()->set_memory_bytes(45000);
  old->mutable_device()->set_reserved_bytes(6000);
  auto simulation = Simulate(program, cluster, {.cost = "unit"});
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  EXPECT_EQ(simulation->report.planned_bytes(), 60000);
  EXPECT_EQ(simulation->report.device_bytes(), 46000);
  EXPECT_EQ(simulation->report.capacity_bytes(), 45000);
  EXPECT_FALSE(simulation->report.fits());
  cluster.mutable_other_devices(0)->mutable_device()->set_reserved_bytes(5000);
  simulation = Simulate(program, cluster, {.cost = "unit"});
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  EXPECT_TRUE(simulation->report.fits());
}

// Additional memory of a framework counts for the rank that needs it. Without that memory, the rank on the smaller
// device has the least memory left.
TEST(SimulateFolded, CountsAdditionalRuntimeMemoryOfItsRank) {
  Program program = GPipeProgram(/*ranks=*/2, /*microbatches=*/2, /*bytes=*/100);
  program.mutable_templates(0)->set_device_arena_bytes(30000);
  program.mutable_templates(1)->set_device_arena_bytes(40000);
  Cluster cluster = BaseCluster();
  OtherDevices* old = cluster.add_other_devices();
  old->add_nodes(0);
  old->add_devices(1);
  *old->mutable_device() = cluster.device();
  old->mutable_device()->set_memory_bytes(105000);
  // The first stage has one more persistent buffer, which is rounded up.
  Buffer* buffer = program.mutable_templates(0)->add_buffers();
  buffer->set_persistent(true);
  buffer->set_place(DEVICE);
  buffer->set_bytes(1);
  Runtime runtime;
  runtime.set_name("rounds");
  runtime.mutable_memory()->set_reserved_bytes(10);
  auto simulation = Simulate(program, cluster, {.runtime = &runtime});
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  EXPECT_EQ(simulation->tightest_rank, 1);
  EXPECT_EQ(simulation->report.device_bytes(), 40010);
  EXPECT_EQ(simulation->report.capacity_bytes(), 105000);
  runtime.mutable_memory()->set_block_bytes(60000);
  simulation = Simulate(program, cluster, {.runtime = &runtime});
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  EXPECT_EQ(simulation->tightest_rank, 0);
  // The program's own buffers have 1000, 100 and 100 bytes.
  EXPECT_EQ(simulation->report.device_bytes(), 30000 + 59999 + 59000 + 2 * 59900 + 10);
  EXPECT_EQ(simulation->report.capacity_bytes(), 100000);
}

// The cluster states how much of a device collectives take: 20 of 100 multiprocessors each.
TEST(SimulateFolded, SlowedByCollectives) {
  Program program = GPipeProgram(/*ranks=*/1, /*microbatches=*/1, /*bytes=*/100);
  program.mutable_mesh()->mutable_axes(0)->set_name("x");
  program.mutable_mesh()->mutable_axes(0)->set_size(2);
  program.mutable_templates(0)->clear_pins();
  Segment& segment = *program.mutable_segments(0);
  AddSumOverX(segment, int64_t{1} << 40);
  Step& work = *segment.mutable_steps(0);
  work.mutable_work()->set_dtype(BF16);
  work.mutable_work()->set_flops(100'000'000'000'000);
  const auto simulation = Simulate(program, BaseCluster(), {.network = "analytic"});
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  // The step takes 1 s alone and 1.25 s beside the sum, which takes longer than that.
  EXPECT_NEAR(simulation->report.per_rank(0).slowed_seconds(), 0.25, 1e-6);
  EXPECT_EQ(simulation->report.simulated_ranks(), 1);
}

}  // namespace
}  // namespace weft::sim
