#include "simulator/network/switch_reduces.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"

namespace weft::sim {

absl::Status CheckNodeSwitchReduces(const Cluster& cluster) {
  const NodeLinks& links = cluster.node_links();
  if (!links.switch_reduces()) {
    return absl::FailedPreconditionError(
        "collective 'switch' needs cluster.node_links.switch_reduces = true (it is false): without it the switches of "
        "the nodes do not sum; nearest valid: 'ring'");
  }
  if (links.direct_size() > 0 || links.devices_per_bridge() > 0) {
    return absl::FailedPreconditionError(
        "cluster.node_links.direct and .devices_per_bridge must be empty for collective 'switch': the switch of a node "
        "sums only if all its devices connect through the switch alone; nearest valid: 'ring'");
  }
  return absl::OkStatus();
}

absl::StatusOr<SwitchWay> SwitchWayOf(const Cluster& cluster, absl::Span<const int64_t> nodes) {
  std::map<int64_t, int64_t> members;
  for (const int64_t node : nodes) ++members[node];
  SwitchWay way = {.nodes = static_cast<int64_t>(members.size()), .on_node = members.begin()->second};
  // A node with one member has nothing to sum.
  if (way.nodes == 1 || way.on_node > 1) WEFT_RETURN_IF_ERROR(CheckNodeSwitchReduces(cluster));
  if (way.nodes == 1) return way;
  const Fabric& fabric = cluster.fabric();
  if (fabric.reduces() == NO_SWITCHES) {
    return absl::FailedPreconditionError(
        "collective 'switch' of a group over several nodes needs cluster.fabric.reduces = LEAF_SWITCHES or "
        "ALL_SWITCHES (it is NO_SWITCHES): without it the switches between nodes do not sum; nearest valid: "
        "'hierarchical'");
  }
  std::set<int64_t> leaves;
  for (const auto& [node, count] : members) {
    if (count != way.on_node) {
      return absl::FailedPreconditionError(absl::StrCat("collective 'switch' of a group with ", way.on_node,
                                                        " members on node ", members.begin()->first, " and ", count,
                                                        " on node ", node,
                                                        ": all nodes must have the same number, because each member "
                                                        "sends an equal part of the sum; nearest valid: 'ring'"));
    }
    if (fabric.nodes_per_switch() > 0) leaves.insert(node / fabric.nodes_per_switch());
  }
  if (leaves.size() > 1 && fabric.reduces() == LEAF_SWITCHES) {
    return absl::FailedPreconditionError(
        absl::StrCat("collective 'switch' of a group that spans ", leaves.size(),
                     " leaf switches needs cluster.fabric.reduces = ALL_SWITCHES (it is LEAF_SWITCHES); nearest valid: "
                     "'hierarchical'"));
  }
  way.latency_seconds = (leaves.size() > 1 ? 2 : 1) * fabric.reduce_latency_seconds();
  return way;
}

SwitchMessages MessagesPast(const CollectiveStage& stage, int64_t members, int64_t below) {
  if (stage.sent == stage.received) return {1, 1};
  if (stage.sent > stage.received) return {members - below, below};
  return {below, members - below};
}

}  // namespace weft::sim
