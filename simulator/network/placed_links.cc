#include "simulator/network/placed_links.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "proto/mesh.h"
#include "proto/status.h"

namespace weft {
namespace {

absl::Status Missing(absl::string_view field) {
  return absl::FailedPreconditionError(
      absl::StrCat("cluster.", field, " must be positive: ranks of different nodes exchange data"));
}

}  // namespace

PlacedLinks::PlacedLinks(const Mesh& mesh, const Cluster& cluster)
    : cluster_(cluster),
      ports_(cluster),
      placement_(RankPlacement::Make(MeshRanks(mesh), cluster)),
      topology_(placement_.ok() ? Topology::Make(cluster, *placement_)
                                : absl::StatusOr<Topology>(placement_.status())) {
  for (const MeshAxis& axis : mesh.axes()) sizes_.push_back(axis.size());
}

absl::Status PlacedLinks::CheckOutside() const {
  if (!topology_.ok()) return topology_.status();
  if (!(cluster_.inter_node().bytes_per_second() > 0)) return Missing("inter_node.bytes_per_second");
  return cluster_.nics_per_node() > 0 ? absl::OkStatus() : Missing("nics_per_node");
}

absl::StatusOr<MessagePath> PlacedLinks::Path(int64_t source, int64_t destination) const {
  if (!topology_.ok()) return topology_.status();
  WEFT_ASSIGN_OR_RETURN(const LinkRoute route, topology_->RouteOfRanks(source, destination));
  int64_t least = INT64_MAX;
  for (const int32_t link : route.links) least = std::min(least, topology_->links()[link].bytes_per_second);
  return MessagePath{route.overhead_seconds, route.latency_seconds, static_cast<double>(least)};
}

absl::StatusOr<MessagePath> PlacedLinks::SharedPath(int64_t source, int64_t destination) const {
  WEFT_ASSIGN_OR_RETURN(MessagePath path, Path(source, destination));
  if (Node(source) == Node(destination)) return path;
  const double interface = cluster_.inter_node().bytes_per_second();
  for (const auto& [from, to] : {std::pair(source, destination), std::pair(destination, source)}) {
    path.bytes_per_second = std::min(
        path.bytes_per_second, ports_.NodeShare(Node(from)) * interface / static_cast<double>(TransfersOut(from, to)));
  }
  return path;
}

absl::StatusOr<double> PlacedLinks::NodeBandwidth(absl::Span<const int64_t> ranks, const GroupForm* form) const {
  WEFT_RETURN_IF_ERROR(CheckOutside());
  const int64_t node = Node(ranks.front());
  double own = 0;
  for (const int64_t rank : ranks) {
    own += static_cast<double>(topology_->OutBytesPerSecond(placement_->DeviceOf(rank)));
  }
  if (own == 0) {
    return absl::FailedPreconditionError(absl::StrCat("cluster.other_interfaces leaves node ", node,
                                                      " no interface, but ranks on it exchange data with other nodes"));
  }
  const int64_t sharing = form == nullptr ? 1 : GroupsAcross(node, GroupsOf(*form));
  return std::min(own,
                  ports_.NodeShare(node) * cluster_.inter_node().bytes_per_second() / static_cast<double>(sharing));
}

// How many transfers between the node of `from` and other nodes are like the one from `from` to `to`: those of the
// node's ranks that have the coordinates of `from` on all axes on which `to` differs. They do the same at the same
// time, for other replicas.
int64_t PlacedLinks::TransfersOut(int64_t from, int64_t to) const {
  // Of the axes on which they differ: stride, size, and the coordinate of `from`.
  struct Axis {
    int64_t stride, size, own;
  };
  absl::InlinedVector<Axis, 4> differ;
  int64_t stride = 1;
  for (const int64_t size : sizes_) {
    const int64_t own = from / stride % size;
    if (to / stride % size != own) differ.push_back({stride, size, own});
    stride *= size;
  }
  const int64_t node = Node(from);
  int64_t count = 0;
  for (const int64_t rank : placement_->RanksOf(node)) {
    const bool alike = std::all_of(differ.begin(), differ.end(),
                                   [&](const Axis& axis) { return rank / axis.stride % axis.size == axis.own; });
    // On those axes its partner has the coordinates of `to`.
    if (alike && Node(rank + (to - from)) != node) ++count;
  }
  return std::max<int64_t>(count, 1);
}

int64_t PlacedLinks::LowestMember(const GroupForm& form, int64_t rank) const {
  int64_t lowest = 0;
  int64_t stride = 1;
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const int64_t own = rank / stride % sizes_[i];
    const AxisPart& part = form[i];
    int64_t coordinate = own;
    switch (part.kind) {
      case AxisPart::kOwn:
        break;
      case AxisPart::kAll:
        coordinate = 0;
        break;
      case AxisPart::kListed:
        if (!std::binary_search(part.listed.begin(), part.listed.end(), own)) return -1;
        coordinate = part.listed.front();
        break;
      case AxisPart::kBlock:
        coordinate -= own % part.size;
        break;
      case AxisPart::kStride:
        coordinate %= part.size;
        break;
    }
    lowest += coordinate * stride;
    stride *= sizes_[i];
  }
  return lowest;
}

// Those of the ranks with other coordinates on axes that the group does not list, and of other blocks.
PlacedLinks::FormGroups& PlacedLinks::GroupsOf(const GroupForm& form) const {
  for (const std::unique_ptr<FormGroups>& known : forms_) {
    if (known->form == form) return *known;
  }
  FormGroups& groups = *forms_.emplace_back(std::make_unique<FormGroups>());
  groups.form = form;
  // By lowest member, the node of the group, or -2 if there are several; -1 = no member yet.
  std::vector<int64_t> node_of(placement_->ranks(), -1);
  for (int64_t rank = 0; rank < placement_->ranks(); ++rank) {
    const int64_t lowest = LowestMember(form, rank);
    if (lowest < 0) continue;
    const int64_t node = Node(rank);
    if (node_of[lowest] == -1) node_of[lowest] = node;
    if (node_of[lowest] != node) node_of[lowest] = -2;
  }
  std::vector<int64_t> lowest_across;
  for (const int64_t node : placement_->nodes()) {
    lowest_across.clear();
    for (const int64_t rank : placement_->RanksOf(node)) {
      const int64_t lowest = LowestMember(form, rank);
      if (lowest >= 0 && node_of[lowest] == -2) lowest_across.push_back(lowest);
    }
    std::sort(lowest_across.begin(), lowest_across.end());
    groups.across.push_back(std::unique(lowest_across.begin(), lowest_across.end()) - lowest_across.begin());
  }
  return groups;
}

int64_t PlacedLinks::GroupsAcross(int64_t node, const FormGroups& groups) const {
  const std::vector<int64_t>& nodes = placement_->nodes();
  const auto at = std::lower_bound(nodes.begin(), nodes.end(), node);
  return std::max<int64_t>(groups.across[at - nodes.begin()], 1);
}

int64_t PlacedLinks::ShapeOf(const GroupForm& form, absl::Span<const int64_t> members) const {
  if (!placement_.ok()) return -1;
  FormGroups& groups = GroupsOf(form);
  const auto [known, is_new] = groups.shapes.emplace(members.front(), 0);
  if (!is_new) return known->second;
  // Which members share nodes, and which nodes leaves of the fabric; which devices they have; what else goes out of
  // their nodes. In a torus, and where interfaces differ, which nodes they are.
  const Fabric& fabric = cluster_.fabric();
  const bool which = fabric.kind() == TORUS || !ports_.all_alike();
  std::vector<int64_t> key = {static_cast<int64_t>(members.size())};
  absl::flat_hash_map<int64_t, int64_t> nodes, places;
  for (const int64_t member : members) {
    const int64_t device = placement_->DeviceOf(member);
    const int64_t node = device / placement_->devices_per_node();
    const auto [place, is_new_node] = nodes.emplace(node, static_cast<int64_t>(nodes.size()));
    key.push_back(place->second);
    key.push_back(device % placement_->devices_per_node());
    if (!is_new_node) continue;
    key.push_back(GroupsAcross(node, groups));
    if (which) key.push_back(node);
    if (fabric.nodes_per_switch() <= 0) continue;
    key.push_back(places.emplace(node / fabric.nodes_per_switch(), static_cast<int64_t>(places.size())).first->second);
  }
  known->second = shapes_.emplace(std::move(key), static_cast<int64_t>(shapes_.size())).first->second;
  return known->second;
}

PlacedGroup::PlacedGroup(const PlacedLinks& links, const GroupForm* form, absl::Span<const int64_t> members)
    : links_(links), form_(form), members_(members) {
  absl::flat_hash_map<int64_t, int32_t> known;
  for (const int64_t member : members) {
    const auto [node, is_new] = known.emplace(links.Node(member), static_cast<int32_t>(known.size()));
    if (is_new) on_node_.emplace_back();
    nodes_.push_back(node->second);
    on_node_[node->second].push_back(member);
  }
}

absl::StatusOr<MessagePath> PlacedGroup::Between(int64_t source, int64_t destination) const {
  return links_.Path(members_[source], members_[destination]);
}

absl::StatusOr<double> PlacedGroup::NodeBandwidth(int32_t node) const {
  return links_.NodeBandwidth(on_node_[node], form_);
}

absl::StatusOr<SwitchWay> PlacedGroup::Switches() const {
  std::vector<int64_t> nodes;
  for (const int64_t member : members_) nodes.push_back(links_.Node(member));
  return SwitchWayOf(links_.cluster(), nodes);
}

absl::StatusOr<double> PlacedGroup::Latency() const {
  double latency = 0;
  for (size_t member = 1; member < members_.size(); ++member) {
    for (const size_t from : {size_t{0}, member - 1}) {
      WEFT_ASSIGN_OR_RETURN(const MessagePath path, links_.Path(members_[from], members_[member]));
      latency = std::max(latency, path.latency_seconds);
    }
  }
  return latency;
}

}  // namespace weft
