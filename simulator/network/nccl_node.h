// The rings that NCCL finds over links between pairs of devices.
#ifndef WEFT_SIMULATOR_NETWORK_NCCL_NODE_H_
#define WEFT_SIMULATOR_NETWORK_NCCL_NODE_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "proto/cluster.pb.h"

namespace weft::sim {

// The link between two devices of a node that does not take its switch; null = none.
const Link* PairLink(const Cluster& cluster, int64_t first, int64_t second);

struct PairRings {
  // What all rings together carry: every device sends with all its links to the others at once, so it is that of the
  // device with the least. (With a link between every two of 4 devices, 3 rings with half of each link one way, and the
  // same the other way round.)
  double bytes_per_second = 0;
  // PCIE if some link is.
  LinkKind kind = LINK_KIND_UNSPECIFIED;
};

// Of these devices of a node, two or more, no two alike. Nothing if a ring needs the switch: if the links do not join
// all, or some device has only one of several.
std::optional<PairRings> FindPairRings(const Cluster& cluster, absl::Span<const int64_t> devices);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_NCCL_NODE_H_
