// Whether a program fits the devices of a cluster, and if not, what takes the memory.
#ifndef WEFT_COMPILER_MEMORY_FIT_H_
#define WEFT_COMPILER_MEMORY_FIT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"

namespace weft {

// ResourceExhausted if arena and reserve exceed the memory of a rank's device (0 = unknown, always fits): by how much,
// the classes and the buffers that take the most. The same for the memory of the nodes.
absl::Status CheckMemoryFit(const Program& program, const Cluster& cluster);

// Whether arena and reserve of each rank are within the memory of the device that it is placed on.
bool DeviceMemoryFits(const Program& program, const Cluster& cluster);

// What the fullest rank holds at least on its device whatever is computed again instead of kept: all at its fullest
// moment but saved activations and workspace.
int64_t BytesWithoutSaved(const Program& program);

// What the ranks of the node that needs the most keep in its memory.
int64_t PlannedNodeBytes(const Program& program, const Cluster& cluster);

}  // namespace weft

#endif  // WEFT_COMPILER_MEMORY_FIT_H_
