// Seeded machines for comparing the simulators: alike everywhere, nearly so, or worn. Figures are round and few, so
// that many things happen at one instant.
#ifndef WEFT_SIMULATOR_TESTING_RANDOM_CLUSTER_H_
#define WEFT_SIMULATOR_TESTING_RANDOM_CLUSTER_H_

#include <cstdint>

#include "proto/cluster.pb.h"

namespace weft::sim {

enum class Wear {
  // Every device and interface like every other, ranks placed in order on whole nodes.
  kSymmetric,
  // One thing is unlike the rest: a device, an interface, or the placement.
  kNearly,
  // Several are, some interfaces are down, some nodes are not the job's.
  kDegraded,
};

// At least `ranks` devices of the job. `load`: collectives take from what is computed beside them.
Cluster RandomCluster(uint64_t seed, int64_t ranks, Wear wear, bool load);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_TESTING_RANDOM_CLUSTER_H_
