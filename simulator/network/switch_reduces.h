// Collectives that switches do ("switch" of schedules/collective): whether a group's can be, and what passes where.
//
// Inside a node its switch sums (NVLink SHARP). Between nodes those of the fabric do (SHARP): each of the g members on
// a node sends 1/g of what the node's own switch has summed, by its own interface, so that a node sends and receives
// every byte once. A leaf switch adds up what the nodes below it send and passes one sum on; what is above adds up
// leaves.
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
  // Members on each of them, on all alike.
  int64_t on_node = 0;
  // Of the fabric's switches that a message is summed in on its way up.
  double latency_seconds = 0;
};

// Of a group whose members are on these nodes of the cluster, in any order; at least one. FailedPrecondition, naming
// the field or the reason, if some switch on the way does not sum.
absl::StatusOr<SwitchWay> SwitchWayOf(const Cluster& cluster, absl::Span<const int64_t> nodes);

// The same of one node.
absl::Status CheckNodeSwitchReduces(const Cluster& cluster);

// Messages of a round that leave `below` of the members for the others, all of them together, and those that reach
// them. Of an all-reduce one each way; of a reduce-scatter those that the others own leave and their own arrive.
struct SwitchMessages {
  int64_t out = 1, in = 1;
};
SwitchMessages MessagesPast(const CollectiveStage& stage, int64_t members, int64_t below);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_SWITCH_REDUCES_H_
