// Whether a group's collectives can be done by a switch ("switch" of schedules/collective).
#ifndef WEFT_SIMULATOR_NETWORK_SWITCH_REDUCES_H_
#define WEFT_SIMULATOR_NETWORK_SWITCH_REDUCES_H_

#include "absl/status/status.h"
#include "proto/cluster.pb.h"

namespace weft {

// OK if the switch of a node of `cluster` sums and multicasts for all of its devices, and the group is on one node.
// Else FailedPrecondition, naming the field or the reason.
absl::Status CheckSwitchReduces(const Cluster& cluster, bool one_node);

}  // namespace weft

#endif  // WEFT_SIMULATOR_NETWORK_SWITCH_REDUCES_H_
