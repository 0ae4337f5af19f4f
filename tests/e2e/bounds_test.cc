// No simulation is faster than its lower bounds, for random programs on every cluster of the catalog with every network
// and cost model.
#include "simulator/metrics/bounds.h"

#include <algorithm>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "proto/util/mesh.h"
#include "simulator/network/network_model.h"
#include "simulator/simulate.h"
#include "tests/random_program.h"

namespace weft {
namespace {

// Allows for rounding to a picosecond and to doubles.
constexpr double kSlack = 1 + 1e-9;

Cluster ClusterOf(const std::string& name, int64_t ranks, uint64_t seed) {
  Cluster cluster;
  const auto file = FindInCatalog("clusters", name);
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) return cluster;
  const absl::Status parsed = ParseMessage(file->content, name, &cluster);
  EXPECT_TRUE(parsed.ok()) << parsed;
  // Some clusters have at most two devices per node, so that there is traffic between nodes. Every other cluster has a
  // slow device.
  if (seed % 3 == 0 && !cluster.has_node_links()) cluster.set_devices_per_node(std::min<int64_t>(2, ranks));
  cluster.set_nodes(std::max(cluster.nodes(), (ranks + cluster.devices_per_node() - 1) / cluster.devices_per_node()));
  if (seed % 2 == 0) {
    OtherDevices* slow = cluster.add_other_devices();
    slow->add_nodes(0);
    slow->add_devices(0);
    slow->set_speed(0.7);
  }
  return cluster;
}

TEST(Bounds, NoSimulationBeatsThem) {
  int simulated = 0, bound_by_compute = 0, sending = 0;
  uint64_t seed = 0;
  for (const std::string& name : CatalogNames("clusters")) {
    for (const sim::NetworkModelEntry& network : sim::NetworkModels()) {
      for (const char* cost : {"roofline", "tiles", "unit"}) {
        for (int i = 0; i < 4; ++i) {
          SCOPED_TRACE(testing::Message() << "seed " << seed << " on " << name << ", " << network.name << ", " << cost);
          RandomProgramOptions options;
          options.max_pipe = 3;
          options.max_data = 2;
          options.events = 16;
          options.schedules = i % 2 == 1;
          options.collectives = i >= 2;
          options.max_flops = i == 0 ? 1'000'000 : 1'000'000'000'000;
          options.max_bytes = i == 0 ? 1'000'000 : 1'000'000'000;
          Program program = RandomProgram(seed, options);
          const Cluster cluster = ClusterOf(name, MeshRanks(program.mesh()), seed);
          for (Segment& segment : *program.mutable_segments()) {
            for (Step& step : *segment.mutable_steps()) {
              if (step.has_work()) step.mutable_work()->set_dtype(cluster.device().peaks(0).dtype());
            }
          }
          sim::SimulateOptions simulate;
          simulate.cost = cost;
          simulate.network = std::string(network.name);
          const auto simulation = sim::Simulate(program, cluster, simulate);
          ++seed;
          // The simulator refuses programs without work and programs that need a peak or rate that the machine does not
          // state.
          if (!simulation.ok()) {
            EXPECT_EQ(simulation.status().code(), absl::StatusCode::kFailedPrecondition) << simulation.status();
            continue;
          }
          ++simulated;
          const SimulationReport& report = simulation->report;
          const LowerBounds& bounds = report.bounds();
          EXPECT_LE(bounds.compute_seconds(), bounds.costed_seconds() * kSlack);
          for (const double bound :
               {bounds.compute_seconds(), bounds.costed_seconds(), bounds.communication_seconds()}) {
            EXPECT_GE(bound, 0);
            EXPECT_LE(bound, report.makespan_seconds() * kSlack);
            EXPECT_LE(bound, report.iteration_seconds() * kSlack);
          }
          bound_by_compute += bounds.costed_seconds() > 0.9 * report.iteration_seconds();
          sending += bounds.communication_seconds() > 0;
          if (HasFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(simulated, 100);
  EXPECT_GT(bound_by_compute, 20);
  EXPECT_GT(sending, 50);
}

}  // namespace
}  // namespace weft
