// The rings that NCCL finds over links between pairs of devices.
#ifndef WEFT_SIMULATOR_NETWORK_NCCL_NODE_H_
#define WEFT_SIMULATOR_NETWORK_NCCL_NODE_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "proto/cluster.pb.h"

namespace weft::sim {

// Returns the link between two devices of a node that does not use the node's switch; null = none.
const Link* PairLink(const Cluster& cluster, int64_t first, int64_t second);

struct PairRings {
  // Bandwidth of all rings together. Every device sends on all its links to the others at once, so this is the
  // bandwidth of the device whose links carry least. (With a link between every two of 4 devices, 3 rings with half of
  // each link run in one direction, and the same 3 rings run in the other direction.)
  double bytes_per_second = 0;
  // PCIE if any of the links is PCIE.
  LinkKind kind = LINK_KIND_UNSPECIFIED;
};

// Finds the rings over two or more different devices of a node. Returns nothing if a ring needs the switch: if the
// links do not join all devices, or if a device has a link to only one of several others.
std::optional<PairRings> FindPairRings(const Cluster& cluster, absl::Span<const int64_t> devices);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_NCCL_NODE_H_
