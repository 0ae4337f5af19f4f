#include "simulator/network/placed_links.h"

#include <algorithm>
#include <limits>

#include "absl/algorithm/container.h"
#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"

namespace weft::sim {
namespace {

absl::Status Missing(absl::string_view field) {
  return absl::FailedPreconditionError(
      absl::StrCat("cluster.", field, " must be positive: ranks of different nodes exchange data"));
}

// Returns the bits of a bandwidth, for use in a key. An error counts as a bandwidth of -1.
int64_t BitsOf(const absl::StatusOr<double>& bandwidth) { return absl::bit_cast<int64_t>(bandwidth.value_or(-1)); }

}  // namespace

PlacedLinks::PlacedLinks(const Mesh& mesh, const Cluster& cluster)
    : cluster_(cluster),
      ports_(cluster),
      placement_(RankPlacement::Make(MeshRanks(mesh), cluster)),
      topology_(placement_.ok() ? Topology::Make(cluster, *placement_)
                                : absl::StatusOr<Topology>(placement_.status())) {
  int64_t stride = 1;
  for (const MeshAxis& axis : mesh.axes()) {
    sizes_.push_back(axis.size());
    strides_.push_back(stride);
    stride *= axis.size();
  }
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
  const bool own = route.links.size() == 1 && topology_->links()[route.links[0]].role == LinkRole::kPair;
  return MessagePath{route.overhead_seconds, route.latency_seconds, static_cast<double>(least), own};
}

absl::StatusOr<MessagePath> PlacedLinks::SharedPath(int64_t source, int64_t destination) const {
  WEFT_ASSIGN_OR_RETURN(MessagePath path, Path(source, destination));
  if (Node(source) == Node(destination)) return path;
  for (const auto& [from, to] : {std::pair(source, destination), std::pair(destination, source)}) {
    path.bytes_per_second = std::min(path.bytes_per_second, TransferBandwidth(from, to));
  }
  return path;
}

// Adds one user of a link to `sharing`. The user is a member of a group that has `members` members on the node, or in
// the place.
void PlacedLinks::AddTo(Sharing& sharing, int64_t members) {
  for (auto& [alike, count] : sharing) {
    if (alike == members) {
      ++count;
      return;
    }
  }
  sharing.emplace_back(members, 1);
}

// Returns a group's bandwidth on a link whose full bandwidth is `all`, if the users in `sharing` share the link.
double PlacedLinks::Shared(double all, const Sharing& sharing) {
  double users = 0;
  for (const auto& [members, count] : sharing) users += static_cast<double>(count) / static_cast<double>(members);
  return all / users;
}

absl::StatusOr<double> PlacedLinks::NodeBandwidth(absl::Span<const int64_t> ranks, const GroupForm* form) const {
  WEFT_RETURN_IF_ERROR(CheckOutside());
  const FormGroups* groups = form == nullptr ? nullptr : &GroupsOf(*form);
  const int64_t members = static_cast<int64_t>(ranks.size());
  absl::flat_hash_map<int32_t, Sharing> own;
  for (const int64_t rank : ranks) {
    for (const int32_t link : topology_->OutLinks(placement_->DeviceOf(rank))) AddTo(own[link], members);
  }
  if (own.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("cluster.other_interfaces leaves node ", Node(ranks.front()),
                                                      " no interface, but ranks on it exchange data with other nodes"));
  }
  double bandwidth = std::numeric_limits<double>::infinity();
  for (const auto& [link, alone] : own) {
    const double all = static_cast<double>(topology_->links()[link].bytes_per_second);
    bandwidth = std::min(bandwidth, Shared(all, alone));
    if (groups == nullptr) continue;
    const auto known = groups->of_link.find(link);
    if (known != groups->of_link.end()) bandwidth = std::min(bandwidth, Shared(all, known->second));
  }
  return bandwidth;
}

double PlacedLinks::PlaceBandwidth(absl::Span<const int64_t> ranks, const GroupForm* form) const {
  double bandwidth = std::numeric_limits<double>::infinity();
  if (!HasNarrowPlaces()) return bandwidth;
  const FormGroups* groups = form == nullptr ? nullptr : &GroupsOf(*form);
  const int64_t members = static_cast<int64_t>(ranks.size());
  absl::flat_hash_map<int32_t, Sharing> own;
  for (const int64_t rank : ranks) AddTo(own[topology_->LeafOf(placement_->DeviceOf(rank))], members);
  for (const auto& [leaf, alone] : own) {
    bandwidth = std::min(bandwidth, Shared(topology_->LeafBytesPerSecond(), alone));
    if (groups == nullptr) continue;
    const auto known = groups->of_leaf.find({Place(ranks.front()), leaf});
    if (known == groups->of_leaf.end()) continue;
    bandwidth = std::min(bandwidth, Shared(topology_->LeafBytesPerSecond(), known->second));
  }
  return bandwidth;
}

void PlacedLinks::AddUser(int32_t link, LinkUsers& users) {
  const auto known = absl::c_find_if(users, [&](const auto& entry) { return entry.first == link; });
  if (known != users.end()) {
    ++known->second;
  } else {
    users.emplace_back(link, 1);
  }
}

// Returns how many transfers use the link. At least 1, because the calling transfer counts too.
double PlacedLinks::UsersOf(int32_t link, const LinkUsers& users) {
  const auto known = absl::c_find_if(users, [&](const auto& entry) { return entry.first == link; });
  return known == users.end() ? 1 : static_cast<double>(known->second);
}

// True if the rank has the coordinates of the senders on all axes on which the senders and their receivers differ.
bool PlacedLinks::Sends(const TransferKey& transfers, int64_t rank) const {
  for (size_t i = 2; i < transfers.size(); i += 2) {
    const int64_t axis = transfers[i];
    if (rank / strides_[axis] % sizes_[axis] != transfers[i + 1]) return false;
  }
  return true;
}

PlacedLinks::LinkUsers PlacedLinks::UsersOutOfNode(const TransferKey& transfers) const {
  const int64_t node = transfers[0], ahead = transfers[1];
  LinkUsers users;
  for (const int64_t rank : placement_->RanksOf(node)) {
    if (!Sends(transfers, rank) || Node(rank + ahead) == node) continue;
    for (const int32_t link : topology_->OutLinks(placement_->DeviceOf(rank))) AddUser(link, users);
  }
  return users;
}

PlacedLinks::LinkUsers PlacedLinks::UsersOutOfPlace(const TransferKey& transfers) const {
  const int64_t place = transfers[0], ahead = transfers[1];
  LinkUsers users;
  const std::vector<int64_t>& nodes = placement_->nodes();
  const auto at = std::partition_point(nodes.begin(), nodes.end(),
                                       [&](int64_t other) { return topology_->PlaceOf(other) < place; });
  for (auto node = at; node != nodes.end() && topology_->PlaceOf(*node) == place; ++node) {
    for (const int64_t rank : placement_->RanksOf(*node)) {
      if (!Sends(transfers, rank) || Place(rank + ahead) == place) continue;
      AddUser(topology_->LeafOf(placement_->DeviceOf(rank)), users);
    }
  }
  return users;
}

// Returns the bandwidth of the transfer from `from` to `to`, a rank on another node, over the links out of the node and
// out of the place of `from`. All ranks with the coordinates of `from` on the axes on which `from` and `to` differ make
// such a transfer at the same time, for other replicas.
double PlacedLinks::TransferBandwidth(int64_t from, int64_t to) const {
  TransferKey key = {Node(from), to - from};
  for (size_t axis = 0; axis < sizes_.size(); ++axis) {
    const int64_t own = from / strides_[axis] % sizes_[axis];
    if (to / strides_[axis] % sizes_[axis] != own) key.insert(key.end(), {static_cast<int64_t>(axis), own});
  }
  const auto [of_node, new_node] = users_out_of_node_.try_emplace(key);
  if (new_node) of_node->second = UsersOutOfNode(key);
  double bandwidth = std::numeric_limits<double>::infinity();
  for (const int32_t link : topology_->OutLinks(placement_->DeviceOf(from))) {
    const double all = static_cast<double>(topology_->links()[link].bytes_per_second);
    bandwidth = std::min(bandwidth, all / UsersOf(link, of_node->second));
  }
  if (Place(from) == Place(to)) return bandwidth;
  key[0] = Place(from);
  const auto [of_place, new_place] = users_out_of_place_.try_emplace(key);
  if (new_place) of_place->second = UsersOutOfPlace(key);
  const int32_t leaf = topology_->LeafOf(placement_->DeviceOf(from));
  return std::min(bandwidth, topology_->LeafBytesPerSecond() / UsersOf(leaf, of_place->second));
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

// Returns the counts of all groups of one form. Such groups differ in their coordinates on axes that a group does not
// span, or in their blocks.
PlacedLinks::FormGroups& PlacedLinks::GroupsOf(const GroupForm& form) const {
  for (const std::unique_ptr<FormGroups>& known : forms_) {
    if (known->form == form) return *known;
  }
  FormGroups& groups = *forms_.emplace_back(std::make_unique<FormGroups>());
  groups.form = form;
  if (topology_.ok()) CountGroups(groups);
  return groups;
}

void PlacedLinks::CountGroups(FormGroups& groups) const {
  constexpr int64_t kNone = -1, kSeveral = -2;
  // For each group, by its lowest member: the node and the place of all its members, or kSeveral if they differ.
  std::vector<int64_t> node_of(placement_->ranks(), kNone), place_of(placement_->ranks(), kNone);
  std::vector<int64_t> lowest_of(placement_->ranks());
  for (int64_t rank = 0; rank < placement_->ranks(); ++rank) {
    const int64_t lowest = lowest_of[rank] = LowestMember(groups.form, rank);
    if (lowest < 0) continue;
    for (auto& [of, at] : {std::pair<std::vector<int64_t>&, int64_t>(node_of, Node(rank)), {place_of, Place(rank)}}) {
      if (of[lowest] == kNone) of[lowest] = at;
      if (of[lowest] != at) of[lowest] = kSeveral;
    }
  }
  // (lowest member, rank) of the ranks on one node, or in one place, whose groups have members elsewhere too.
  std::vector<std::pair<int64_t, int64_t>> out;
  const auto each = [&](const auto& add) {
    std::sort(out.begin(), out.end());
    for (size_t begin = 0, end = 0; begin < out.size(); begin = end) {
      while (end < out.size() && out[end].first == out[begin].first) ++end;
      for (size_t i = begin; i < end; ++i) add(placement_->DeviceOf(out[i].second), static_cast<int64_t>(end - begin));
    }
    out.clear();
  };
  std::vector<std::pair<int64_t, int64_t>> above;
  const std::vector<int64_t>& nodes = placement_->nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const int64_t rank : placement_->RanksOf(nodes[i])) {
      const int64_t lowest = lowest_of[rank];
      if (lowest < 0) continue;
      if (node_of[lowest] == kSeveral) out.emplace_back(lowest, rank);
      if (place_of[lowest] == kSeveral) above.emplace_back(lowest, rank);
    }
    each([&](int64_t device, int64_t members) {
      for (const int32_t link : topology_->OutLinks(device)) AddTo(groups.of_link[link], members);
    });
    if (!HasNarrowPlaces()) continue;
    const int64_t place = topology_->PlaceOf(nodes[i]);
    if (i + 1 < nodes.size() && topology_->PlaceOf(nodes[i + 1]) == place) continue;
    out.swap(above);
    each([&](int64_t device, int64_t members) { AddTo(groups.of_leaf[{place, topology_->LeafOf(device)}], members); });
  }
}

int64_t PlacedLinks::ShapeOf(const GroupForm& form, absl::Span<const int64_t> members) const {
  if (!placement_.ok()) return -1;
  FormGroups& groups = GroupsOf(form);
  const auto [known, is_new] = groups.shapes.emplace(members.front(), 0);
  if (!is_new) return known->second;
  // The key contains which members share nodes, which nodes share leaves of the fabric, and which devices the members
  // have. In a torus, and if interfaces differ, the key also contains the numbers of the nodes.
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
    if (which) key.push_back(node);
    if (fabric.nodes_per_switch() <= 0) continue;
    key.push_back(places.emplace(node / fabric.nodes_per_switch(), static_cast<int64_t>(places.size())).first->second);
  }
  // The key also holds the bandwidths to other nodes and places while other groups of the same form send too.
  const PlacedGroup placed(*this, &form, members);
  for (int32_t node = 0; placed.nodes() > 1 && node < placed.nodes(); ++node) {
    key.push_back(BitsOf(placed.NodeBandwidth(node)));
  }
  for (int32_t place = 0; placed.places() > 1 && place < placed.places(); ++place) {
    key.push_back(BitsOf(placed.PlaceBandwidth(place)));
  }
  known->second = shapes_.emplace(std::move(key), static_cast<int64_t>(shapes_.size())).first->second;
  return known->second;
}

PlacedGroup::PlacedGroup(const PlacedLinks& links, const GroupForm* form, absl::Span<const int64_t> members)
    : links_(links), form_(form), members_(members) {
  absl::flat_hash_map<int64_t, int32_t> known, known_places;
  for (const int64_t member : members) {
    const auto [node, is_new] = known.emplace(links.Node(member), static_cast<int32_t>(known.size()));
    if (is_new) {
      const auto [place, is_new_place] =
          known_places.emplace(links.Place(member), static_cast<int32_t>(known_places.size()));
      if (is_new_place) in_place_.emplace_back();
      on_node_.emplace_back();
      places_.push_back(place->second);
    }
    nodes_.push_back(node->second);
    on_node_[node->second].push_back(member);
    in_place_[places_[node->second]].push_back(member);
  }
}

absl::StatusOr<MessagePath> PlacedGroup::Between(int64_t source, int64_t destination) const {
  return links_.Path(members_[source], members_[destination]);
}

absl::StatusOr<double> PlacedGroup::NodeBandwidth(int32_t node) const {
  return links_.NodeBandwidth(on_node_[node], form_);
}

absl::StatusOr<double> PlacedGroup::PlaceBandwidth(int32_t place) const {
  return links_.PlaceBandwidth(in_place_[place], form_);
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

}  // namespace weft::sim
