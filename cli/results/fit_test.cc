#include "cli/results/fit.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

Program TwoStages() { return Parse<Program>("mesh { axes { name: 'pipe' size: 2 } }"); }

Cluster Nodes(const std::string& others = "") {
  return Parse<Cluster>("name: 'c' nodes: 2 devices_per_node: 1 device { name: 'large' memory_bytes: 100 } " + others);
}

std::string Said(const SimulationReport& report, const Cluster& cluster, int64_t tightest_rank = 0) {
  sim::Simulation simulation;
  simulation.report = report;
  simulation.tightest_rank = tightest_rank;
  return std::string(CheckFit(simulation, TwoStages(), cluster).message());
}

TEST(CheckFit, AcceptsAProgramThatFits) {
  EXPECT_EQ(Said(Parse<SimulationReport>("fits: true device_bytes: 9 capacity_bytes: 1"), Nodes()), "");
}

TEST(CheckFit, NamesTheClusterWhereAllDevicesAreAlike) {
  EXPECT_EQ(Said(Parse<SimulationReport>("cluster: 'c' device_bytes: 200 capacity_bytes: 100"), Nodes()),
            "the program needs 200 B per device; c has 100 B");
}

TEST(CheckFit, NamesTheDeviceWhereTheyDiffer) {
  const auto report = Parse<SimulationReport>("cluster: 'c' device_bytes: 30 capacity_bytes: 20");
  const Cluster differ = Nodes("other_devices { nodes: 1 device { name: 'small' memory_bytes: 20 } }");
  EXPECT_EQ(Said(report, differ, 1),
            "the program needs 30 B for rank 1 on device 0 of node 1, 'small', which has 20 B");
  EXPECT_EQ(Said(report, differ, 0),
            "the program needs 30 B for rank 0 on device 0 of node 0, 'large', which has 20 B");
}

TEST(CheckFit, NamesTheMemoryOfNodes) {
  EXPECT_EQ(Said(Parse<SimulationReport>("cluster: 'c' device_bytes: 1 capacity_bytes: 2 planned_host_bytes: 64 "
                                         "host_capacity_bytes: 32"),
                 Nodes()),
            "the program needs 64 B of host memory per node; c has 32 B (cluster.host_memory_bytes)");
}

}  // namespace
}  // namespace weft
