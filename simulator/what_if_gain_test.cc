// Tests that no run becomes slower if a part of a machine becomes faster, provided that the order of work does not
// depend on time. The tests make every change on every network, with random programs of fixed order on random machines.
// Each step then takes at most as long as before, and a step that starts once its waits are over starts no later.
//
// The tests leave out cases where a run may become slower:
//   - compute that is chosen at run time (P6) or waits for shared slots (P3): less time may bring another order;
//   - collectives that slow down computation beside them (load): another collective may now run beside it.
// On two networks, too, a faster part may make a run slower, so the tests only bound how often and by how much. On
// "flow", flows share links: if one flow is faster, another may meet traffic that it would have missed. "nccl" chooses
// algorithms as if no other group used the links, so with a faster link it may choose one that is slower where links
// are shared.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "simulator/network/network_model.h"
#include "simulator/testing/random_cluster.h"
#include "simulator/what_if.h"
#include "tests/random_program.h"

namespace weft::sim {
namespace {

struct Case {
  Program program;
  Cluster cluster;
};

Case CaseOf(uint64_t seed) {
  const RandomProgramOptions options = {.max_pipe = 3,
                                        .max_data = 3,
                                        .events = 12,
                                        .schedules = seed % 2 == 0,
                                        .collectives = seed % 4 < 2,
                                        .max_ranks = 8};
  Case made;
  made.program = RandomProgram(seed, options);
  made.cluster = RandomCluster(seed, MeshRanks(made.program.mesh()), Wear::kSymmetric, /*load=*/false);
  made.cluster.clear_compute_slots_per_node();
  made.cluster.clear_compute_turn_seconds();
  return made;
}

TEST(WhatIfGain, FasterPartsDoNotSlowTheStep) {
  // For each network: changes simulated, changes that gained, changes that lost, and the largest loss.
  struct Count {
    int all = 0, gained = 0, lost = 0;
    double most = 0;
  };
  std::map<std::string, Count> counts;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const Case made = CaseOf(seed);
    if (made.program.compute_order() != STATIC_ORDER) continue;
    for (const NetworkModelEntry& network : NetworkModels()) {
      const SimulateOptions options = {.cost = "roofline", .network = std::string(network.name)};
      const auto before = Simulate(made.program, made.cluster, options);
      ASSERT_TRUE(before.ok()) << before.status();
      for (const char* text : {"nic=2x", "intra=3x", "latency=0.5x", "host=2x", "memory=2x", "compute=1.5x",
                               "launch=0.5x", "nic=1.3x,intra=1.3x,compute=1.3x"}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", network " << network.name << ", " << text);
        const WhatIfChanges changes = *ParseWhatIf(text);
        if (!CheckWhatIf(changes, options).ok()) continue;
        const auto changed = ChangedCluster(made.cluster, changes);
        if (!changed.ok()) continue;
        const auto after = Simulate(made.program, *changed, options);
        ASSERT_TRUE(after.ok()) << after.status();
        const double gain = before->report.makespan_seconds() / after->report.makespan_seconds() - 1;
        Count& count = counts[options.network];
        ++count.all;
        count.gained += gain > 0;
        count.lost += gain < 0;
        count.most = std::min(count.most, gain);
        if (options.network == "flow" || options.network == "nccl") continue;
        EXPECT_GE(gain, 0);
      }
    }
  }
  for (const auto& [network, count] : counts) {
    EXPECT_GT(count.all, 200) << network;
    EXPECT_GT(count.gained * 5, count.all) << network;
  }
  // On networks where a run may become slower, that is rare and the loss is small.
  EXPECT_LT(counts["flow"].lost * 50, counts["flow"].all);
  EXPECT_GT(counts["flow"].most, -0.1);
  EXPECT_LT(counts["nccl"].lost * 50, counts["nccl"].all);
  EXPECT_GT(counts["nccl"].most, -0.1);
}

}  // namespace
}  // namespace weft::sim
