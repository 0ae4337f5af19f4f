// Seeded random machines for comparing the simulators: symmetric, nearly symmetric, or degraded. Figures are round and
// few, so that many things happen at one instant.
#ifndef WEFT_SIMULATOR_TESTING_RANDOM_CLUSTER_H_
#define WEFT_SIMULATOR_TESTING_RANDOM_CLUSTER_H_

#include <cstdint>

#include "proto/cluster.pb.h"

namespace weft::sim {

enum class Wear {
  // All devices and interfaces are alike. Ranks are placed in order, node after node.
  kSymmetric,
  // One thing is out of order: some devices, some interfaces, or the placement.
  kNearly,
  // Some devices and interfaces differ, some interfaces may be down, and the job may use only some of the nodes.
  kDegraded,
};

// Returns a machine on which the job has at least `ranks` devices. If `load`, collectives slow down the computation
// beside them.
Cluster RandomCluster(uint64_t seed, int64_t ranks, Wear wear, bool load);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_TESTING_RANDOM_CLUSTER_H_
