// Collectives that switches compute ("switch" of schedules/collective): whether the switches can serve a group, and how
// many messages pass each link.
//
// Inside a node, the node's switch sums (NVLink SHARP). Between nodes, the switches of the fabric sum (SHARP): each of
// the g members on a node sends 1/g of the node's sum by its own interface. So a node sends and receives every byte
// once. A leaf switch adds up the data from the nodes below it and passes one sum on. The switches above it add up the
// sums of the leaves.
//
// Source: Graham et al., "Scalable hierarchical aggregation protocol (SHArP)", COMHPC 2016,
// doi:10.1109/COMHPC.2016.006.
#ifndef WEFT_SIMULATOR_NETWORK_SWITCH_REDUCES_H_
#define WEFT_SIMULATOR_NETWORK_SWITCH_REDUCES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/cluster.pb.h"
#include "schedules/collective/plan.h"

namespace weft::sim {

struct SwitchWay {
  int64_t nodes = 1;
  // Members on each node, the same number on all nodes.
  int64_t on_node = 0;
  // Total latency of the fabric's switches that sum a message on its way up.
  double latency_seconds = 0;
};

// Returns the way through the switches for a group whose members are on these nodes of the cluster. There must be at
// least one node; the order does not matter. Returns FailedPrecondition, naming the field or the reason, if some switch
// on the way does not sum.
absl::StatusOr<SwitchWay> SwitchWayOf(const Cluster& cluster, absl::Span<const int64_t> nodes);

// Returns FailedPrecondition, naming the field, if the switch inside a node does not sum.
absl::Status CheckNodeSwitchReduces(const Cluster& cluster);

// Messages of one round that `below` of the members together send to the others, and messages that the others send to
// them. An all-reduce has one in each direction. In a reduce-scatter, the parts that the others own leave, and the
// parts that the `below` members own arrive.
struct SwitchMessages {
  int64_t out = 1, in = 1;
};
SwitchMessages MessagesPast(const CollectiveStage& stage, int64_t members, int64_t below);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_SWITCH_REDUCES_H_
