#include "simulator/network/switch_reduces.h"

namespace weft {

absl::Status CheckSwitchReduces(const Cluster& cluster, bool one_node) {
  const NodeLinks& links = cluster.node_links();
  if (!links.switch_reduces()) {
    return absl::FailedPreconditionError(
        "cluster.node_links.switch_reduces = false must be true for collective 'switch': no switch of the cluster is "
        "known to sum; nearest valid: 'ring'");
  }
  if (links.direct_size() > 0 || links.devices_per_bridge() > 0) {
    return absl::FailedPreconditionError(
        "cluster.node_links.direct and .devices_per_bridge must be empty for collective 'switch': not all devices of a "
        "node are below its switch alone; nearest valid: 'ring'");
  }
  if (!one_node) {
    return absl::FailedPreconditionError(
        "collective 'switch' of a group over several nodes: only switches of nodes (cluster.node_links.switch_reduces) "
        "are known to sum, none between nodes; nearest valid: 'hierarchical'");
  }
  return absl::OkStatus();
}

}  // namespace weft
