// Checks whether a program fits the devices of a cluster, and if not, reports what takes the memory.
#ifndef WEFT_COMPILER_MEMORY_FIT_H_
#define WEFT_COMPILER_MEMORY_FIT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"

namespace weft {

// ResourceExhausted if arena and reserve exceed the memory of a rank's device (0 = unknown, always fits). The message
// states by how much, and the classes and buffers that take the most. The host memory of the nodes is checked likewise.
absl::Status CheckMemoryFit(const Program& program, const Cluster& cluster);

// True if the arena and reserve of each rank fit the memory of the rank's device.
bool DeviceMemoryFits(const Program& program, const Cluster& cluster);

// Lower bound on the device bytes of the fullest rank that holds however much is recomputed: the most bytes that are
// live at once, without saved activations and workspace.
int64_t BytesWithoutSaved(const Program& program);

// Bytes of the host arenas on the node whose ranks need the most.
int64_t PlannedNodeBytes(const Program& program, const Cluster& cluster);

}  // namespace weft

#endif  // WEFT_COMPILER_MEMORY_FIT_H_
