#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/validate/validate.h"
#include "proto/validate/validate_test_util.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

const char kCluster[] = R"(
  name: "c" source: "nowhere" nodes: 2 devices_per_node: 4 nics_per_node: 1
  device {
    name: "d" memory_bytes: 1000000 memory_bytes_per_second: 1e9 reserved_bytes: 1000
    peaks { dtype: FP32 flops_per_second: 1e10 }
    matmul_efficiency { from: 0 fraction: 0.5 }
    memory_efficiency { from: 10 fraction: 1 }
    kernel_rates { kernel: "MATMUL" dtype: FP32 flops_per_second: 1e9 }
    kernel_rates { kernel: "MATMUL" dtype: FP32 from_work: 100 flops_per_second: 2e9 }
    tiles {
      multiprocessors: 2 tiles { rows: 8 columns: 8 fraction: 0.5 } attention_fraction: 0.5
      attention_backward_fraction: 0.5 attention_rows: 8 memory_fraction: 0.5
    }
  }
  intra_node { bytes_per_second: 1e9 } inter_node { bytes_per_second: 1e8 } host { bytes_per_second: 1e9 }
  node_links {
    direct { first: 0 second: 1 link { bytes_per_second: 2e9 } }
    devices_per_bridge: 2 bridge { bytes_per_second: 1e9 }
  }
  fabric { kind: FAT_TREE nodes_per_switch: 1 oversubscription: 2 hop_latency_seconds: 1e-6 }
  other_devices { nodes: 1 devices: [ 0, 3 ] speed: 0.5 }
  other_interfaces { nodes: [ 0, 1 ] interfaces: 0 fraction: 0.5 }
  placement { nodes: [ 1, 0 ] devices: [ 2, 3 ] }
  noise {
    device_speed_deviation: 0.01 step_deviation: 0.02 straggler_probability: 0.1 straggler_slowdown: 2
    slow_interface_probability: 1 slow_interface_fraction: 0.5
  }
  reliability {
    failures_per_device_year: 0.1 failures_per_node_year: 0.5 restart_seconds: 60 checkpoint_bytes_per_second: 1e9
    background_stop_seconds: 1 spare_nodes: 1 repair_seconds: 3600
  }
  dollars_per_device_hour: 2.5
  watts_per_device: 1100
)";

// Bad values for the fields of a device. They must be refused for every device of a cluster.
std::vector<Bad> DeviceCases() {
  return {
      {"device.name", "device { name: \"\" }", "cluster.device.name is missing"},
      {"device.memory_bytes", "device { memory_bytes: 0 }", "cluster.device.memory_bytes = 0 must be at least 1"},
      {"device.memory_bytes_per_second", "device { memory_bytes_per_second: 0 }",
       "cluster.device.memory_bytes_per_second = 0 must be finite and greater than 0"},
      {"device.memory_bytes_per_second", "device { memory_bytes_per_second: inf }",
       "cluster.device.memory_bytes_per_second = inf"},
      {"device.launch_seconds", "device { launch_seconds: -1 }", "cluster.device.launch_seconds = -1"},
      {"device.reserved_bytes", "device { reserved_bytes: -1 }", "cluster.device.reserved_bytes = -1"},
      {"device.reserved_bytes", "device { reserved_bytes: 1000000 }",
       "cluster.device.reserved_bytes = 1000000 must be less than cluster.device.memory_bytes = 1000000"},
      {"device.peaks.dtype", "device { peaks { flops_per_second: 1 } }",
       "cluster.device.peaks[1].dtype = DTYPE_UNSPECIFIED"},
      {"device.peaks.dtype", "device { peaks { dtype: 42 flops_per_second: 1 } }",
       "cluster.device.peaks[1].dtype = 42"},
      {"device.peaks.dtype", "device { peaks { dtype: FP32 flops_per_second: 1 } }", "FP32 is listed twice"},
      {"device.peaks.flops_per_second", "device { peaks { dtype: BF16 } }",
       "cluster.device.peaks[1].flops_per_second = 0"},
      {"device.peaks.flops_per_second", "device { peaks { dtype: BF16 flops_per_second: nan } }", "= nan"},
      {"device.matmul_efficiency.from", "device { matmul_efficiency { from: 0 fraction: 1 } }",
       "cluster.device.matmul_efficiency[1].from = 0 must be greater than in the previous row, 0"},
      {"device.matmul_efficiency.fraction", "device { matmul_efficiency { from: 1 fraction: 1.5 } }",
       "cluster.device.matmul_efficiency[1].fraction = 1.5 must be greater than 0 and at most 1"},
      {"device.memory_efficiency.from", "device { memory_efficiency { from: -1 fraction: 1 } }",
       "cluster.device.memory_efficiency[1].from = -1"},
      {"device.memory_efficiency.from", "device { memory_efficiency { from: nan fraction: 1 } }", "from = nan"},
      {"device.memory_efficiency.fraction", "device { memory_efficiency { from: 11 } }", "fraction = 0"},
      {"device.kernel_rates.kernel", "device { kernel_rates { kernel: \"MATMULL\" dtype: FP32 flops_per_second: 1 } }",
       "cluster.device.kernel_rates[2].kernel = 'MATMULL' is unknown; nearest: 'MATMUL'"},
      {"device.kernel_rates.kernel",
       "device { kernel_rates { kernel: \"MATMUL bf16>bf16 4xx4\" dtype: FP32 flops_per_second: 1 } }",
       "cluster.device.kernel_rates[2].kernel = MATMUL bf16>bf16 4xx4 must be a kernel, or the key of one"},
      {"device.kernel_rates.kernel",
       "device { kernel_rates { kernel: \"MATMULL bf16>bf16 4x4\" dtype: FP32 flops_per_second: 1 } }",
       "cluster.device.kernel_rates[2].kernel = 'MATMULL' is unknown; nearest: 'MATMUL'"},
      {"device.kernel_rates.kernel",
       "device { kernel_rates { kernel: \"KERNEL_UNSPECIFIED\" dtype: FP32 flops_per_second: 1 } }", "is unknown"},
      {"device.kernel_rates.dtype", "device { kernel_rates { kernel: \"ADD\" bytes_per_second: 1 } }",
       "cluster.device.kernel_rates[2].dtype = DTYPE_UNSPECIFIED"},
      {"device.kernel_rates.dtype", "device { kernel_rates { kernel: \"GELU\" dtype: TF32 bytes_per_second: 1 } }",
       "cluster.device.kernel_rates[2].dtype = TF32 must be the dtype of the first operand of GELU: only MATMUL works "
       "in TF32"},
      {"device.kernel_rates.dtype",
       "device { kernel_rates { kernel: \"GELU fp32>fp32 4x4\" dtype: TF32 overhead_seconds: 1 } }",
       "cluster.device.kernel_rates[2].dtype = TF32 must be"},
      {"device.kernel_rates.from_work",
       "device { kernel_rates { kernel: \"ADD\" dtype: FP32 from_work: -1 bytes_per_second: 1 } }", "from_work = -1"},
      {"device.kernel_rates.from_work",
       "device { kernel_rates { kernel: \"MATMUL\" dtype: FP32 from_work: 50 flops_per_second: 1 } }",
       "cluster.device.kernel_rates[2].from_work = 50 must be greater than in the previous row"},
      {"device.kernel_rates.flops_per_second",
       "device { kernel_rates { kernel: \"ADD\" dtype: FP32 flops_per_second: -1 } }", "flops_per_second = -1"},
      {"device.kernel_rates.flops_per_second",
       "device { kernel_rates { kernel: \"MATMUL\" dtype: FP32 from_work: 500 bytes_per_second: 1 } }",
       "flops_per_second = 0 does not match the previous row"},
      {"device.kernel_rates.bytes_per_second",
       "device { kernel_rates { kernel: \"ADD\" dtype: FP32 bytes_per_second: nan } }", "bytes_per_second = nan"},
      {"device.kernel_rates.overhead_seconds",
       "device { kernel_rates { kernel: \"ADD\" dtype: FP32 overhead_seconds: -1 } }", "overhead_seconds = -1"},
      {"device.kernel_rates.overhead_seconds", "device { kernel_rates { kernel: \"ADD\" dtype: FP32 } }",
       "has neither a rate nor an overhead"},
      {"device.tiles.multiprocessors", "device { tiles { multiprocessors: 0 } }",
       "cluster.device.tiles.multiprocessors = 0 must be at least 1"},
      {"device.tiles.tiles.rows", "device { tiles { tiles { columns: 1 fraction: 1 } } }",
       "cluster.device.tiles.tiles[1].rows = 0"},
      {"device.tiles.tiles.columns", "device { tiles { tiles { rows: 1 columns: -1 fraction: 1 } } }",
       "cluster.device.tiles.tiles[1].columns = -1"},
      {"device.tiles.tiles.fraction", "device { tiles { tiles { rows: 1 columns: 1 fraction: 1.5 } } }",
       "cluster.device.tiles.tiles[1].fraction = 1.5 must be greater than 0 and at most 1"},
      {"device.tiles.half_depth", "device { tiles { half_depth: -1 } }", "cluster.device.tiles.half_depth = -1"},
      {"device.tiles.attention_fraction", "device { tiles { attention_fraction: 0 } }",
       "cluster.device.tiles.attention_fraction = 0"},
      {"device.tiles.attention_backward_fraction", "device { tiles { attention_backward_fraction: nan } }",
       "cluster.device.tiles.attention_backward_fraction = nan"},
      {"device.tiles.attention_rows", "device { tiles { attention_rows: 0 } }",
       "cluster.device.tiles.attention_rows = 0"},
      {"device.tiles.memory_fraction", "device { tiles { memory_fraction: 2 } }",
       "cluster.device.tiles.memory_fraction = 2"},
      {"device.tiles.half_bytes", "device { tiles { half_bytes: inf } }", "cluster.device.tiles.half_bytes = inf"},
      {"device.communication_load.multiprocessors", "device { communication_load { multiprocessors: 1 } }",
       "cluster.device.communication_load.multiprocessors = 1 must be at most 0"},
      {"device.communication_load.multiprocessors", "device { communication_load { multiprocessors: -1 } }",
       "cluster.device.communication_load.multiprocessors = -1 must be at least 0"},
      {"device.communication_load.memory_bytes_per_second",
       "device { communication_load { memory_bytes_per_second: 5e8 } }",
       "cluster.device.communication_load.memory_bytes_per_second = 5e+08 must be less than half of "
       "cluster.device.memory_bytes_per_second"},
      {"device.communication_load.memory_bytes_per_second",
       "device { communication_load { memory_bytes_per_second: -1 } }",
       "cluster.device.communication_load.memory_bytes_per_second = -1"},
      {"device.compute_capability", "device { compute_capability: 1000 }",
       "cluster.device.compute_capability = 1000 must be at most 999"},
      {"device.compute_capability", "device { compute_capability: -1 }", "cluster.device.compute_capability = -1"},
  };
}

TEST(ValidateCluster, AcceptsAGoodOne) {
  EXPECT_TRUE(Validate(Parse<Cluster>(kCluster)).ok());
  const absl::Status one = Validate(Parse<Cluster>(R"(
    name: "one" nodes: 1 devices_per_node: 1 device { name: "d" memory_bytes: 1 memory_bytes_per_second: 1
      peaks { dtype: FP64 flops_per_second: 1 } })"));
  EXPECT_TRUE(one.ok()) << one;
  Cluster rounds = Parse<Cluster>(kCluster);
  Apply("device { kernel_rates { kernel: \"MATMUL\" dtype: TF32 flops_per_second: 1 } }", &rounds);
  Apply("device { kernel_rates { kernel: \"MATMUL fp32*2>fp32 tf32 4x4x4\" dtype: TF32 overhead_seconds: 1 } }",
        &rounds);
  EXPECT_EQ(Validate(rounds), absl::OkStatus());
  const absl::Status torus = Validate(Parse<Cluster>(R"(
    name: "t" nodes: 12 devices_per_node: 1 nics_per_node: 1 device { name: "d" memory_bytes: 1
      memory_bytes_per_second: 1 peaks { dtype: FP64 flops_per_second: 1 } }
    inter_node { bytes_per_second: 1 kind: NETWORK } fabric { kind: TORUS torus: [ 3, 4 ] hop_latency_seconds: 1 }
    other_interfaces { nodes: 3 down: true } placement { devices_of_ranks: [ 11, 3 ] })"));
  EXPECT_TRUE(torus.ok()) << torus;
}

TEST(ValidateCluster, RefusesEveryBadField) {
  std::vector<Bad> table = {
      {"name", "name: \"\"", "cluster.name is missing"},
      {"nodes", "nodes: 0", "cluster.nodes = 0 must be at least 1"},
      {"nodes", "nodes: 1000000000", "cluster.nodes * cluster.devices_per_node = 4000000000"},
      {"nodes", "nodes: 9223372036854775807", "cluster.nodes = 9223372036854775807 must be at most"},
      {"devices_per_node", "devices_per_node: -1", "cluster.devices_per_node = -1"},
      {"nics_per_node", "nics_per_node: 0", "cluster.nics_per_node = 0 must be at least 1"},
      {"host_memory_bytes", "host_memory_bytes: -1", "cluster.host_memory_bytes = -1"},
      {"compute_slots_per_node", "compute_slots_per_node: -1", "cluster.compute_slots_per_node = -1"},
      {"compute_turn_seconds", "compute_turn_seconds: -1", "cluster.compute_turn_seconds = -1"},
      {"compute_turn_seconds", "compute_turn_seconds: nan", "cluster.compute_turn_seconds = nan"},
      {"intra_node.bytes_per_second", "intra_node { bytes_per_second: 0 }", "cluster.intra_node.bytes_per_second = 0"},
      {"intra_node.latency_seconds", "intra_node { latency_seconds: -1 }", "cluster.intra_node.latency_seconds = -1"},
      {"intra_node.overhead_seconds", "intra_node { overhead_seconds: nan }",
       "cluster.intra_node.overhead_seconds = nan"},
      {"inter_node.bytes_per_second", "inter_node { bytes_per_second: inf }",
       "cluster.inter_node.bytes_per_second = inf"},
      {"inter_node.latency_seconds", "inter_node { latency_seconds: -1 }", "cluster.inter_node.latency_seconds = -1"},
      {"inter_node.overhead_seconds", "inter_node { overhead_seconds: -1 }",
       "cluster.inter_node.overhead_seconds = -1"},
      {"host.bytes_per_second", "host { bytes_per_second: -1 }", "cluster.host.bytes_per_second = -1"},
      {"host.latency_seconds", "host { latency_seconds: -1 }", "cluster.host.latency_seconds = -1"},
      {"host.overhead_seconds", "host { overhead_seconds: -1 }", "cluster.host.overhead_seconds = -1"},
      {"intra_node.kind", "intra_node { kind: 42 }", "cluster.intra_node.kind = 42 must be NVLINK, PCIE or NETWORK"},
      {"inter_node.kind", "inter_node { kind: -1 }", "cluster.inter_node.kind = -1"},
      {"host.kind", "host { kind: 4 }", "cluster.host.kind = 4"},
      {"nics_per_node", "nics_per_node: 4097", "cluster.nics_per_node = 4097 must be at most 4096"},
      {"node_links.all_pairs", "devices_per_node: 257 node_links { all_pairs: true }",
       "cluster.node_links.all_pairs = true is not allowed with 257 devices per node; allowed: at most 256"},
      {"node_links.switch_reduces", "node_links { all_pairs: true switch_reduces: true }",
       "cluster.node_links.switch_reduces = true is not allowed with all_pairs"},
      {"node_links.direct.first", "node_links { direct { first: 4 second: 1 link { bytes_per_second: 1 } } }",
       "cluster.node_links.direct[1].first = 4 must be at most 3"},
      {"node_links.direct.second", "node_links { direct { first: 2 second: -1 link { bytes_per_second: 1 } } }",
       "cluster.node_links.direct[1].second = -1 must be at least 0"},
      {"node_links.direct.second", "node_links { direct { first: 2 second: 2 link { bytes_per_second: 1 } } }",
       "cluster.node_links.direct[1].second = 2 must be different from first"},
      {"node_links.direct.second", "node_links { direct { first: 1 second: 0 link { bytes_per_second: 1 } } }",
       "cluster.node_links.direct[1] links devices 1 and 0, but another row links them too"},
      {"node_links.direct.link.bytes_per_second", "node_links { direct { first: 1 second: 2 } }",
       "cluster.node_links.direct[1].link.bytes_per_second = 0"},
      {"node_links.direct.link.latency_seconds",
       "node_links { direct { first: 1 second: 2 link { bytes_per_second: 1 latency_seconds: inf } } }",
       "cluster.node_links.direct[1].link.latency_seconds = inf"},
      {"node_links.direct.link.overhead_seconds",
       "node_links { direct { first: 1 second: 2 link { bytes_per_second: 1 overhead_seconds: -1 } } }",
       "cluster.node_links.direct[1].link.overhead_seconds = -1"},
      {"node_links.direct.link.kind",
       "node_links { direct { first: 1 second: 2 link { bytes_per_second: 1 kind: 9 } } }",
       "cluster.node_links.direct[1].link.kind = 9"},
      {"node_links.devices_per_bridge", "node_links { devices_per_bridge: 5 }",
       "cluster.node_links.devices_per_bridge = 5 must be at most 4"},
      {"node_links.devices_per_bridge", "node_links { devices_per_bridge: 0 }",
       "cluster.node_links.devices_per_bridge is missing; it is required with a bridge"},
      {"node_links.bridge.bytes_per_second", "node_links { bridge { bytes_per_second: 0 } }",
       "cluster.node_links.bridge.bytes_per_second = 0"},
      {"node_links.bridge.latency_seconds", "node_links { bridge { latency_seconds: -1 } }",
       "cluster.node_links.bridge.latency_seconds = -1"},
      {"node_links.bridge.overhead_seconds", "node_links { bridge { overhead_seconds: nan } }",
       "cluster.node_links.bridge.overhead_seconds = nan"},
      {"node_links.bridge.kind", "node_links { bridge { kind: 9 } }", "cluster.node_links.bridge.kind = 9"},
      {"fabric.kind", "fabric { kind: 9 }", "cluster.fabric.kind = 9 must be NON_BLOCKING, FAT_TREE"},
      {"fabric.kind", "fabric { kind: NON_BLOCKING }",
       "cluster.fabric.hop_latency_seconds = 1e-06 must be 0: a fabric of kind NON_BLOCKING has no such figure"},
      {"fabric.nodes_per_switch", "fabric { nodes_per_switch: 0 }",
       "cluster.fabric.nodes_per_switch is missing; it is required for a fabric of kind FAT_TREE"},
      {"fabric.nodes_per_switch", "fabric { kind: DRAGONFLY nodes_per_switch: -1 }",
       "cluster.fabric.nodes_per_switch = -1 must be at least 0"},
      {"fabric.nodes_per_switch", "fabric { nodes_per_switch: 9223372036854775807 }",
       "cluster.fabric.nodes_per_switch = 9223372036854775807 must be at most 1099511627776"},
      {"fabric.nodes_per_switch", "fabric { kind: TORUS torus: 2 }",
       "cluster.fabric.nodes_per_switch = 1 must be 0: a fabric of kind TORUS"},
      {"fabric.oversubscription", "fabric { oversubscription: -2 }", "cluster.fabric.oversubscription = -2"},
      {"fabric.oversubscription", "fabric { kind: TORUS nodes_per_switch: 0 torus: 2 }",
       "cluster.fabric.oversubscription = 2 must be 0"},
      {"fabric.hop_latency_seconds", "fabric { hop_latency_seconds: -1 }", "cluster.fabric.hop_latency_seconds = -1"},
      {"fabric.reduces", "fabric { reduces: 3 }",
       "cluster.fabric.reduces = 3 must be NO_SWITCHES, LEAF_SWITCHES or ALL_SWITCHES"},
      {"fabric.reduces", "fabric { kind: DRAGONFLY reduces: LEAF_SWITCHES }",
       "cluster.fabric.reduces = LEAF_SWITCHES must be NO_SWITCHES in a fabric of kind DRAGONFLY"},
      {"fabric.reduce_latency_seconds", "fabric { reduces: ALL_SWITCHES reduce_latency_seconds: -1 }",
       "cluster.fabric.reduce_latency_seconds = -1"},
      {"fabric.reduce_latency_seconds", "fabric { reduce_latency_seconds: 1 }",
       "cluster.fabric.reduce_latency_seconds = 1 must be 0 if no switch of the fabric sums"},
      {"fabric.torus", "fabric { torus: 2 }",
       "cluster.fabric.torus = [2] must be left out: a fabric of kind FAT_TREE is not a torus"},
      {"fabric.torus", "fabric { kind: TORUS nodes_per_switch: 0 oversubscription: 0 }",
       "cluster.fabric.torus is missing; it must list the nodes along each dimension, whose product is 2"},
      {"fabric.torus", "fabric { kind: TORUS nodes_per_switch: 0 oversubscription: 0 torus: [ 2, 0 ] }",
       "cluster.fabric.torus[1] = 0 must be at least 1"},
      {"fabric.torus", "fabric { kind: TORUS nodes_per_switch: 0 oversubscription: 0 torus: [ 2, 2 ] }",
       "cluster.fabric.torus = 2 x 2 must multiply to the nodes of the cluster, 2"},
      {"fabric.torus",
       "fabric { kind: TORUS nodes_per_switch: 0 oversubscription: 0 torus: [ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "
       "1, "
       "1, 1, 2 ] }",
       "cluster.fabric.torus has 17 dimensions; at most 16 are allowed"},
      {"fabric.torus",
       "nodes: 500000000 fabric { kind: TORUS nodes_per_switch: 0 oversubscription: 0 torus: [ 500000000, 500000000, "
       "500000000, 500000000 ] }",
       "cluster.fabric.torus = 500000000 x 500000000 x 500000000 x 500000000 must multiply to the nodes"},
      {"other_devices.nodes", "other_devices { nodes: [ 0, 2 ] }",
       "cluster.other_devices[1].nodes[1] = 2 must be at least 0 and at most 1: cluster.nodes = 2"},
      {"other_devices.nodes", "other_devices { nodes: [ 1, 1 ] }",
       "cluster.other_devices[1].nodes[1] = 1 is listed twice"},
      {"other_devices.devices", "other_devices { devices: -1 }",
       "cluster.other_devices[1].devices[0] = -1 must be at least 0 and at most 3: cluster.devices_per_node = 4"},
      {"other_devices.speed", "other_devices { speed: -1 }",
       "cluster.other_devices[1].speed = -1 must be at least 1e-06 and at most 1e+06"},
      {"other_devices.speed", "other_devices { speed: nan }", "cluster.other_devices[1].speed = nan"},
      {"other_interfaces.nodes", "other_interfaces { nodes: 2 fraction: 1 }",
       "cluster.other_interfaces[1].nodes[0] = 2"},
      {"other_interfaces.interfaces", "other_interfaces { interfaces: 1 fraction: 1 }",
       "cluster.other_interfaces[1].interfaces[0] = 1 must be at least 0 and at most 0: cluster.nics_per_node = 1"},
      {"other_interfaces.fraction", "other_interfaces { fraction: 1.5 }",
       "cluster.other_interfaces[1].fraction = 1.5 must be greater than 0 and at most 1"},
      {"other_interfaces.fraction", "other_interfaces { nodes: 0 }", "cluster.other_interfaces[1].fraction = 0"},
      {"other_interfaces.down", "other_interfaces { down: true fraction: 0.5 }",
       "cluster.other_interfaces[1].fraction = 0.5 must be left out if down is true"},
      {"placement.nodes", "placement { nodes: 2 }", "cluster.placement.nodes[2] = 2 must be at least 0 and at most 1"},
      {"placement.nodes", "placement { nodes: 1 }", "cluster.placement.nodes[2] = 1 is listed twice"},
      {"placement.devices", "placement { devices: 2 }", "cluster.placement.devices[2] = 2 is listed twice"},
      {"placement.devices", "placement { devices: 9223372036854775807 }",
       "cluster.placement.devices[2] = 9223372036854775807 must be at least 0 and at most 3"},
      {"placement.devices_of_ranks", "placement { devices_of_ranks: 8 }",
       "cluster.placement.devices_of_ranks[0] = 8 must be at least 0 and at most 7: cluster.nodes * "
       "cluster.devices_per_node = 8"},
      {"placement.devices_of_ranks", "placement { devices_of_ranks: [ 3, 3 ] }",
       "cluster.placement.devices_of_ranks[1] = 3 is listed twice"},
      {"placement.devices_of_ranks", "placement { devices_of_ranks: 3 }",
       "cluster.placement.nodes must be empty with devices_of_ranks"},
      {"noise.device_speed_deviation", "noise { device_speed_deviation: 1 }",
       "cluster.noise.device_speed_deviation = 1 must be at least 0 and less than 1"},
      {"noise.step_deviation", "noise { step_deviation: -0.5 }", "cluster.noise.step_deviation = -0.5"},
      {"noise.straggler_probability", "noise { straggler_probability: 1.5 }",
       "cluster.noise.straggler_probability = 1.5 must be at least 0 and at most 1"},
      {"noise.straggler_slowdown", "noise { straggler_slowdown: 0.5 }",
       "cluster.noise.straggler_slowdown = 0.5 must be at least 1"},
      {"noise.straggler_slowdown", "noise { straggler_slowdown: inf }", "cluster.noise.straggler_slowdown = inf"},
      {"noise.slow_interface_probability", "noise { slow_interface_probability: nan }",
       "cluster.noise.slow_interface_probability = nan"},
      {"noise.slow_interface_fraction", "noise { slow_interface_fraction: 0 }",
       "cluster.noise.slow_interface_fraction = 0 must be greater than 0 and at most 1"},
      {"reliability.failures_per_device_year", "reliability { failures_per_device_year: -1 }",
       "cluster.reliability.failures_per_device_year = -1 must be finite and at least 0"},
      {"reliability.failures_per_node_year", "reliability { failures_per_node_year: nan }",
       "cluster.reliability.failures_per_node_year = nan"},
      {"reliability.restart_seconds", "reliability { restart_seconds: -1 }",
       "cluster.reliability.restart_seconds = -1"},
      {"reliability.checkpoint_bytes_per_second", "reliability { checkpoint_bytes_per_second: 0 }",
       "cluster.reliability.checkpoint_bytes_per_second = 0 must be finite and greater than 0"},
      {"reliability.background_stop_seconds", "reliability { background_stop_seconds: -1 }",
       "cluster.reliability.background_stop_seconds = -1"},
      {"reliability.spare_nodes", "reliability { spare_nodes: 3 }",
       "cluster.reliability.spare_nodes = 3 must be at most 2"},
      {"reliability.repair_seconds", "reliability { repair_seconds: 0 }",
       "cluster.reliability.repair_seconds = 0 must be finite and greater than 0"},
      {"watts_per_device", "watts_per_device: -1", "cluster.watts_per_device = -1"},
      {"dollars_per_device_hour", "dollars_per_device_hour: inf", "cluster.dollars_per_device_hour = inf"},
  };
  const std::vector<Bad> device = DeviceCases();
  table.insert(table.end(), device.begin(), device.end());
  // The test below covers the fields of a device in other_devices.
  std::set<std::string> free = {"source", "device.tiles.skips_masked"};
  std::set<std::string> of_device;
  LeafFields(*Device::descriptor(), "other_devices.device.", &of_device);
  free.insert(of_device.begin(), of_device.end());
  CheckTable<Cluster>(Parse<Cluster>(kCluster), table, free, [](Cluster* c) { return Validate(*c); });
}

TEST(ValidateCluster, RefusesEveryBadFieldOfAnotherDevice) {
  for (const Bad& bad : DeviceCases()) {
    Cluster changed = Parse<Cluster>(kCluster);
    Apply(bad.change, &changed);
    Cluster cluster = Parse<Cluster>(kCluster);
    *cluster.mutable_other_devices(0)->mutable_device() = cluster.device();
    EXPECT_EQ(Validate(cluster), absl::OkStatus());
    *cluster.mutable_other_devices(0)->mutable_device() = changed.device();
    std::string error = bad.error;
    for (size_t at = error.find("cluster.device"); at != std::string::npos; at = error.find("cluster.device", at + 1)) {
      error.replace(at, 14, "cluster.other_devices[0].device");
    }
    EXPECT_THAT(std::string(Validate(cluster).message()), HasSubstr(error)) << bad.change;
  }
}

TEST(ValidateCluster, RefusesMissingParts) {
  const auto error = [](const std::function<void(Cluster*)>& change) {
    Cluster cluster = Parse<Cluster>(kCluster);
    change(&cluster);
    return std::string(Validate(cluster).message());
  };
  EXPECT_THAT(error([](Cluster* c) { c->clear_device(); }), HasSubstr("cluster.device is missing"));
  EXPECT_THAT(error([](Cluster* c) { c->mutable_device()->clear_peaks(); }), HasSubstr("peaks is missing"));
  EXPECT_THAT(error([](Cluster* c) { c->mutable_device()->mutable_tiles()->clear_tiles(); }),
              HasSubstr("cluster.device.tiles.tiles is missing"));
  EXPECT_THAT(error([](Cluster* c) {
                c->mutable_device()->clear_tiles();
                c->mutable_device()->mutable_communication_load()->set_multiprocessors(1);
              }),
              HasSubstr("multiprocessors = 1 must be 0 without cluster.device.tiles"));
  EXPECT_THAT(error([](Cluster* c) { c->mutable_node_links()->clear_bridge(); }),
              HasSubstr("cluster.node_links.bridge is missing"));
  EXPECT_THAT(error([](Cluster* c) {
                c->set_nodes(1);
                c->clear_other_devices();
                c->clear_placement();
                c->mutable_other_interfaces(0)->clear_nodes();
                c->set_nics_per_node(0);
              }),
              HasSubstr("interfaces[0] = 0 must be left out: cluster.nics_per_node = 0"));
  EXPECT_THAT(error([](Cluster* c) { c->clear_intra_node(); }), HasSubstr("cluster.intra_node is missing"));
  EXPECT_THAT(error([](Cluster* c) { c->clear_inter_node(); }), HasSubstr("cluster.inter_node is missing"));
}

TEST(ValidateTogether, PlanNeedsDevices) {
  Cluster cluster = Parse<Cluster>(kCluster);
  cluster.clear_placement();
  Plan plan = Parse<Plan>("mesh { axes { name: \"data\" size: 2 } axes { name: \"pipe\" size: 4 } }");
  EXPECT_TRUE(ValidateTogether(plan, cluster).ok());
  plan.mutable_mesh()->mutable_axes(0)->set_size(3);
  EXPECT_EQ(std::string(ValidateTogether(plan, cluster).message()),
            "plan.mesh has 12 ranks; cluster 'c' has 2 * 4 = 8 devices");
  plan.mutable_mesh()->mutable_axes(0)->set_size(1);
  cluster.mutable_placement()->add_nodes(1);
  EXPECT_TRUE(ValidateTogether(plan, cluster).ok());
  cluster.mutable_placement()->add_devices(2);
  EXPECT_EQ(std::string(ValidateTogether(plan, cluster).message()),
            "plan.mesh has 4 ranks; cluster 'c' has 1 * 1 = 1 devices in cluster.placement");
  cluster.clear_placement();
  for (int64_t device = 0; device < 4; ++device) {
    EXPECT_EQ(ValidateTogether(plan, cluster).ok(), device == 0);
    cluster.mutable_placement()->add_devices_of_ranks(device);
  }
  EXPECT_TRUE(ValidateTogether(plan, cluster).ok());
}

}  // namespace
}  // namespace weft
