#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/validate.h"
#include "proto/validate_test_util.h"

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
)";

TEST(ValidateCluster, AcceptsAGoodOne) {
  EXPECT_TRUE(Validate(Parse<Cluster>(kCluster)).ok());
  const absl::Status one = Validate(Parse<Cluster>(R"(
    name: "one" nodes: 1 devices_per_node: 1 device { name: "d" memory_bytes: 1 memory_bytes_per_second: 1
      peaks { dtype: FP64 flops_per_second: 1 } })"));
  EXPECT_TRUE(one.ok()) << one;
}

TEST(ValidateCluster, RefusesEveryBadField) {
  const std::vector<Bad> table = {
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
       "cluster.device.matmul_efficiency[1].from = 0 must be greater than that of the row before, 0"},
      {"device.matmul_efficiency.fraction", "device { matmul_efficiency { from: 1 fraction: 1.5 } }",
       "cluster.device.matmul_efficiency[1].fraction = 1.5 must be greater than 0 and at most 1"},
      {"device.memory_efficiency.from", "device { memory_efficiency { from: -1 fraction: 1 } }",
       "cluster.device.memory_efficiency[1].from = -1"},
      {"device.memory_efficiency.from", "device { memory_efficiency { from: nan fraction: 1 } }", "from = nan"},
      {"device.memory_efficiency.fraction", "device { memory_efficiency { from: 11 } }", "fraction = 0"},
      {"device.kernel_rates.kernel", "device { kernel_rates { kernel: \"MATMULL\" dtype: FP32 flops_per_second: 1 } }",
       "cluster.device.kernel_rates[2].kernel = 'MATMULL' is unknown; nearest: 'MATMUL'"},
      {"device.kernel_rates.kernel",
       "device { kernel_rates { kernel: \"KERNEL_UNSPECIFIED\" dtype: FP32 flops_per_second: 1 } }", "is unknown"},
      {"device.kernel_rates.dtype", "device { kernel_rates { kernel: \"ADD\" bytes_per_second: 1 } }",
       "cluster.device.kernel_rates[2].dtype = DTYPE_UNSPECIFIED"},
      {"device.kernel_rates.from_work",
       "device { kernel_rates { kernel: \"ADD\" dtype: FP32 from_work: -1 bytes_per_second: 1 } }", "from_work = -1"},
      {"device.kernel_rates.from_work",
       "device { kernel_rates { kernel: \"MATMUL\" dtype: FP32 from_work: 50 flops_per_second: 1 } }",
       "cluster.device.kernel_rates[2].from_work = 50 must be greater than that of the row before"},
      {"device.kernel_rates.flops_per_second",
       "device { kernel_rates { kernel: \"ADD\" dtype: FP32 flops_per_second: -1 } }", "flops_per_second = -1"},
      {"device.kernel_rates.flops_per_second",
       "device { kernel_rates { kernel: \"MATMUL\" dtype: FP32 from_work: 500 bytes_per_second: 1 } }",
       "flops_per_second = 0 differs in kind"},
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
  };
  CheckTable<Cluster>(Parse<Cluster>(kCluster), table, {"source", "device.tiles.skips_masked"},
                      [](Cluster* c) { return Validate(*c); });
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
  EXPECT_THAT(error([](Cluster* c) { c->clear_intra_node(); }), HasSubstr("cluster.intra_node is missing"));
  EXPECT_THAT(error([](Cluster* c) { c->clear_inter_node(); }), HasSubstr("cluster.inter_node is missing"));
}

TEST(ValidateTogether, PlanNeedsDevices) {
  const Cluster cluster = Parse<Cluster>(kCluster);
  Plan plan = Parse<Plan>("mesh { axes { name: \"data\" size: 2 } axes { name: \"pipe\" size: 4 } }");
  EXPECT_TRUE(ValidateTogether(plan, cluster).ok());
  plan.mutable_mesh()->mutable_axes(0)->set_size(3);
  EXPECT_EQ(std::string(ValidateTogether(plan, cluster).message()),
            "plan.mesh has 12 ranks; cluster 'c' has 2 * 4 = 8 devices");
}

}  // namespace
}  // namespace weft
