#include "simulator/network/topology.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"

namespace weft::sim {
namespace {

constexpr double kMaxLinks = 1 << 24;
// The maximum number of uplinks of one leaf, since no switch has more ports.
constexpr int64_t kMaxUplinks = 4096;
// 2^60 bytes per second: a sum of a few such bandwidths fits in an int64_t.
constexpr double kMaxBytesPerSecond = 1.152921504606847e18;

absl::Status Missing(absl::string_view field, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("cluster.", field, " must be positive: ", why));
}

int64_t BytesPerSecond(double figure) {
  if (!(figure >= 1)) return 1;
  return static_cast<int64_t>(std::min(figure, kMaxBytesPerSecond));
}

uint64_t PairKey(uint64_t a, uint64_t b) { return std::min(a, b) << 32 | std::max(a, b); }

int64_t BridgeOf(const Cluster& cluster, int64_t device_in_node) {
  return device_in_node / cluster.node_links().devices_per_bridge();
}

bool HasBridges(const Cluster& cluster) {
  const int64_t devices = cluster.node_links().devices_per_bridge();
  return devices > 0 && devices < cluster.devices_per_node();
}

double Oversubscription(const Fabric& fabric) { return fabric.oversubscription() > 0 ? fabric.oversubscription() : 1; }

bool HasPlaces(const Fabric& fabric) {
  return fabric.nodes_per_switch() > 0 &&
         (fabric.kind() == FAT_TREE || fabric.kind() == RAIL_OPTIMISED || fabric.kind() == DRAGONFLY);
}

}  // namespace

Topology::Topology(const Cluster& cluster, const RankPlacement& placement)
    : cluster_(&cluster), placement_(&placement), ports_(cluster), devices_per_node_(placement.devices_per_node()) {}

absl::StatusOr<Topology> Topology::Make(const Cluster& cluster, const RankPlacement& placement) {
  Topology topology(cluster, placement);
  WEFT_RETURN_IF_ERROR(topology.Build());
  return topology;
}

absl::Status Topology::Build() {
  const std::vector<int64_t> devices = placement_->Devices();
  ends_.resize(devices.size());
  for (size_t i = 0; i < devices.size(); ++i) ends_[i].device = devices[i];
  for (int i = 0; i < cluster_->node_links().direct_size(); ++i) {
    const DirectLink& direct = cluster_->node_links().direct(i);
    direct_rows_.emplace(PairKey(direct.first(), direct.second()), i);
  }
  for (size_t begin = 0; begin < ends_.size();) {
    size_t end = begin;
    const int64_t node = ends_[begin].device / devices_per_node_;
    while (end < ends_.size() && ends_[end].device / devices_per_node_ == node) ++end;
    WEFT_RETURN_IF_ERROR(BuildNode(begin, end));
    begin = end;
  }
  if (placement_->nodes().size() > 1) WEFT_RETURN_IF_ERROR(BuildFabric());
  return absl::OkStatus();
}

absl::Status Topology::BuildNode(size_t begin, size_t end) {
  const NodeLinks& node_links = cluster_->node_links();
  const int64_t node = ends_[begin].device / devices_per_node_;
  const bool leaves = placement_->nodes().size() > 1;
  const double devices = static_cast<double>(end - begin);
  WEFT_RETURN_IF_ERROR(
      CheckSize(6 * devices + (node_links.all_pairs() ? devices * (devices - 1) : 0) + 2.0 * node_links.direct_size()));
  // The port of a device leads to the switch. A PCIe port also leads to the interfaces.
  const bool switched = !node_links.all_pairs() && end - begin > 1;
  const bool to_interfaces = leaves && cluster_->intra_node().kind() == PCIE;
  for (size_t i = begin; i < end && (switched || to_interfaces); ++i) {
    ends_[i].port = AddBoth(LinkRole::kDeviceOut, node, ends_[i].device % devices_per_node_, 0,
                            cluster_->intra_node().bytes_per_second());
  }
  if (end - begin > 1) BuildPairs(begin, end);
  if (HasBridges(*cluster_)) {
    for (size_t i = begin; i < end; ++i) {
      const int64_t bridge = BridgeOf(*cluster_, ends_[i].device % devices_per_node_);
      const bool same = i > begin && BridgeOf(*cluster_, ends_[i - 1].device % devices_per_node_) == bridge;
      ends_[i].bridge = same ? ends_[i - 1].bridge
                             : AddBoth(LinkRole::kBridgeOut, node, bridge, 0, node_links.bridge().bytes_per_second());
    }
  }
  if (leaves) BuildInterfaces(begin, end);
  return absl::OkStatus();
}

void Topology::BuildPairs(size_t begin, size_t end) {
  const NodeLinks& node_links = cluster_->node_links();
  const int64_t node = ends_[begin].device / devices_per_node_;
  const auto add = [&](size_t i, size_t j, const Link& link) {
    pairs_[PairKey(i, j)] = AddBoth(LinkRole::kPair, node, ends_[i].device % devices_per_node_,
                                    ends_[j].device % devices_per_node_, link.bytes_per_second());
  };
  for (const DirectLink& direct : node_links.direct()) {
    const Ends* first = Find(node * devices_per_node_ + std::min(direct.first(), direct.second()));
    const Ends* second = Find(node * devices_per_node_ + std::max(direct.first(), direct.second()));
    if (first == nullptr || second == nullptr) continue;
    add(first - ends_.data(), second - ends_.data(), direct.link());
  }
  for (size_t i = begin; i < end && node_links.all_pairs(); ++i) {
    for (size_t j = i + 1; j < end; ++j) {
      if (!pairs_.contains(PairKey(i, j))) add(i, j, cluster_->intra_node());
    }
  }
}

void Topology::BuildInterfaces(size_t begin, size_t end) {
  const int64_t node = ends_[begin].device / devices_per_node_;
  absl::flat_hash_map<int64_t, int32_t> links;
  absl::flat_hash_map<int64_t, int32_t> bridges;
  for (size_t i = begin; i < end; ++i) {
    if (ends_[i].bridge >= 0) bridges[links_[ends_[i].bridge].index] = ends_[i].bridge;
  }
  for (size_t i = begin; i < end; ++i) {
    Ends& ends = ends_[i];
    const int64_t port = ports_.PortOf(node, ends.device % devices_per_node_);
    ends.interface_port = static_cast<int32_t>(port);
    if (port < 0) continue;
    const auto [link, added] = links.emplace(port, -1);
    if (added) {
      link->second = AddBoth(LinkRole::kInterfaceOut, node, port, 0,
                             ports_.Share(node, port) * cluster_->inter_node().bytes_per_second());
    }
    ends.interface = link->second;
    if (ends.bridge < 0) continue;
    // An interface is below the bridge of the first device that has this interface as its own.
    const int64_t first = (port * devices_per_node_ + ports_.ports() - 1) / ports_.ports();
    const int64_t home = BridgeOf(*cluster_, first);
    if (home == links_[ends.bridge].index) continue;
    const auto [bridge, absent] = bridges.emplace(home, -1);
    if (absent) {
      bridge->second = AddBoth(LinkRole::kBridgeOut, node, home, 0, cluster_->node_links().bridge().bytes_per_second());
    }
    ends.interface_bridge = bridge->second;
  }
}

absl::Status Topology::BuildFabric() {
  const Fabric& fabric = cluster_->fabric();
  if (fabric.kind() == TORUS) return BuildTorus();
  if (!HasPlaces(fabric)) return absl::OkStatus();
  const int64_t first = PlaceOf(placement_->nodes().front());
  if (PlaceOf(placement_->nodes().back()) == first && fabric.kind() != RAIL_OPTIMISED) return absl::OkStatus();

  const double nodes = static_cast<double>(fabric.nodes_per_switch());
  const double interface = cluster_->inter_node().bytes_per_second();
  const double node_sends = static_cast<double>(cluster_->nics_per_node()) * interface;
  const double ports = static_cast<double>(std::max<int64_t>(ports_.ports(), 1));
  const bool rails = fabric.kind() == RAIL_OPTIMISED;
  const int64_t leaves = rails ? std::max<int64_t>(ports_.ports(), 1) : 1;
  // The bytes per second that the nodes below one leaf can send through it, and the capacity of its uplinks.
  const double sends = nodes * (rails ? node_sends / ports : node_sends);
  const double up = sends / Oversubscription(fabric);
  if (Oversubscription(fabric) > 1 && PlaceOf(placement_->nodes().back()) != first) leaf_bytes_per_second_ = up;
  uplinks_ = fabric.kind() == DRAGONFLY
                 ? 1
                 : std::clamp<int64_t>(std::llround(std::min(nodes * (rails ? 1 : ports) / Oversubscription(fabric),
                                                             static_cast<double>(kMaxUplinks))),
                                       1, kMaxUplinks);
  const LinkRole role = fabric.kind() == DRAGONFLY ? LinkRole::kGroupOut : LinkRole::kLeafUp;
  for (const int64_t node : placement_->nodes()) {
    const int64_t place = PlaceOf(node);
    if (!places_.empty() && places_.back().first == place) continue;
    WEFT_RETURN_IF_ERROR(CheckSize(2.0 * static_cast<double>(leaves) * static_cast<double>(uplinks_)));
    places_.emplace_back(place, static_cast<int32_t>(links_.size()));
    for (int64_t leaf = 0; leaf < leaves; ++leaf) {
      for (int64_t i = 0; i < uplinks_; ++i) AddBoth(role, place, i, leaf, up / static_cast<double>(uplinks_));
    }
  }
  return absl::OkStatus();
}

absl::Status Topology::BuildTorus() {
  // Messages also pass nodes that have no ranks.
  const double dimensions = cluster_->fabric().torus_size();
  WEFT_RETURN_IF_ERROR(CheckSize(static_cast<double>(cluster_->nodes()) * 2 * dimensions));
  for (const int64_t size : cluster_->fabric().torus()) {
    if (size <= 0) return Missing("fabric.torus", "it is the number of nodes along each dimension");
  }
  torus_ = static_cast<int32_t>(links_.size());
  for (int64_t node = 0; node < cluster_->nodes(); ++node) {
    for (int i = 0; i < cluster_->fabric().torus_size(); ++i) {
      AddBoth(LinkRole::kTorusUp, node, i, 0, cluster_->inter_node().bytes_per_second());
    }
  }
  return absl::OkStatus();
}

int32_t Topology::AddBoth(LinkRole role, int64_t place, int64_t index, int64_t to, double bytes_per_second) {
  TopologyLink link = {.role = role,
                       .place = place,
                       .index = static_cast<int32_t>(index),
                       .to = static_cast<int32_t>(to),
                       .bytes_per_second = BytesPerSecond(bytes_per_second)};
  links_.push_back(link);
  if (role == LinkRole::kPair) {
    std::swap(link.index, link.to);
  } else {
    link.role = static_cast<LinkRole>(static_cast<int>(role) + 1);
  }
  links_.push_back(link);
  return static_cast<int32_t>(links_.size()) - 2;
}

absl::Status Topology::CheckSize(double more) const {
  if (static_cast<double>(links_.size()) + more <= kMaxLinks) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("cluster '", cluster_->name(), "' with ", placement_->ranks(),
                                                   " ranks has more than ", static_cast<int64_t>(kMaxLinks),
                                                   " links; more cannot be simulated"));
}

std::string Topology::LinkName(int32_t link) const {
  const TopologyLink& l = links_[link];
  const std::string node = absl::StrCat("node ", l.place, " ");
  const std::string leaf = l.to > 0 || cluster_->fabric().kind() == RAIL_OPTIMISED
                               ? absl::StrCat("leaf ", l.place, " rail ", l.to, " ")
                               : absl::StrCat("leaf ", l.place, " ");
  const absl::string_view nic = cluster_->nics_per_node() > devices_per_node_ ? "nics of device " : "nic ";
  switch (l.role) {
    case LinkRole::kDeviceOut:
      return absl::StrCat(node, "device ", l.index, " out");
    case LinkRole::kDeviceIn:
      return absl::StrCat(node, "device ", l.index, " in");
    case LinkRole::kPair:
      return absl::StrCat(node, "device ", l.index, " to ", l.to);
    case LinkRole::kBridgeOut:
      return absl::StrCat(node, "bridge ", l.index, " out");
    case LinkRole::kBridgeIn:
      return absl::StrCat(node, "bridge ", l.index, " in");
    case LinkRole::kInterfaceOut:
      return absl::StrCat(node, nic, l.index, " out");
    case LinkRole::kInterfaceIn:
      return absl::StrCat(node, nic, l.index, " in");
    case LinkRole::kLeafUp:
      return absl::StrCat(leaf, "up ", l.index);
    case LinkRole::kLeafDown:
      return absl::StrCat(leaf, "down ", l.index);
    case LinkRole::kGroupOut:
      return absl::StrCat("group ", l.place, " out");
    case LinkRole::kGroupIn:
      return absl::StrCat("group ", l.place, " in");
    case LinkRole::kTorusUp:
      return absl::StrCat(node, "dimension ", l.index, " up");
    case LinkRole::kTorusDown:
      return absl::StrCat(node, "dimension ", l.index, " down");
  }
  return "";
}

const Topology::Ends* Topology::Find(int64_t device) const {
  // If the numbers of the placed devices have no gaps, the index of a device is its number minus the first number.
  const uint64_t first = ends_.empty() ? 0 : static_cast<uint64_t>(ends_.front().device);
  const uint64_t place = static_cast<uint64_t>(device) - first;
  if (place < ends_.size() && ends_[place].device == device) return &ends_[place];
  const auto at = std::lower_bound(ends_.begin(), ends_.end(), device,
                                   [](const Ends& ends, int64_t value) { return ends.device < value; });
  return at != ends_.end() && at->device == device ? &*at : nullptr;
}

absl::InlinedVector<int32_t, 4> Topology::OutLinks(int64_t device) const {
  absl::InlinedVector<int32_t, 4> links;
  const Ends* ends = Find(device);
  if (ends == nullptr || ends->interface < 0) return links;
  if (cluster_->intra_node().kind() == PCIE) links.push_back(ends->port);
  if (ends->interface_bridge >= 0) {
    links.push_back(ends->bridge);
    links.push_back(ends->interface_bridge + 1);
  }
  links.push_back(ends->interface);
  return links;
}

int32_t Topology::LeafOf(int64_t device) const {
  const Ends* ends = Find(device);
  return ends != nullptr && cluster_->fabric().kind() == RAIL_OPTIMISED ? std::max(ends->interface_port, 0) : 0;
}

absl::StatusOr<LinkRoute> Topology::Route(int64_t from, int64_t to) const {
  const Ends* source = Find(from);
  const Ends* destination = Find(to);
  if (source == nullptr || destination == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("device ", source == nullptr ? from : to, " has no rank of the program"));
  }
  if (from == to) return LinkRoute{};
  return from / devices_per_node_ == to / devices_per_node_ ? Inside(*source, *destination)
                                                            : Outside(*source, *destination);
}

absl::StatusOr<LinkRoute> Topology::Inside(const Ends& from, const Ends& to) const {
  const NodeLinks& node_links = cluster_->node_links();
  LinkRoute route;
  const uint64_t a = static_cast<uint64_t>(&from - ends_.data());
  const uint64_t b = static_cast<uint64_t>(&to - ends_.data());
  const auto pair = pairs_.find(PairKey(a, b));
  if (pair != pairs_.end()) {
    const auto row = direct_rows_.find(PairKey(from.device % devices_per_node_, to.device % devices_per_node_));
    const Link& link = row != direct_rows_.end() ? node_links.direct(row->second).link() : cluster_->intra_node();
    if (!(link.bytes_per_second() > 0))
      return Missing("intra_node.bytes_per_second", "ranks of one node exchange data");
    route.links.push_back(pair->second + (a < b ? 0 : 1));
    route.latency_seconds = link.latency_seconds();
    route.overhead_seconds = link.overhead_seconds();
    return route;
  }
  if (!(cluster_->intra_node().bytes_per_second() > 0)) {
    return Missing("intra_node.bytes_per_second", "ranks of one node exchange data");
  }
  route.latency_seconds = cluster_->intra_node().latency_seconds();
  route.overhead_seconds = cluster_->intra_node().overhead_seconds();
  route.links.push_back(from.port);
  if (from.bridge != to.bridge) {
    if (!(node_links.bridge().bytes_per_second() > 0)) {
      return Missing("node_links.bridge.bytes_per_second", "ranks of one node exchange data");
    }
    route.links.push_back(from.bridge);
    route.links.push_back(to.bridge + 1);
    route.latency_seconds += node_links.bridge().latency_seconds();
    route.overhead_seconds += node_links.bridge().overhead_seconds();
  }
  route.links.push_back(to.port + 1);
  return route;
}

absl::StatusOr<LinkRoute> Topology::Outside(const Ends& from, const Ends& to) const {
  if (!(cluster_->inter_node().bytes_per_second() > 0)) {
    return Missing("inter_node.bytes_per_second", "ranks of different nodes exchange data");
  }
  if (cluster_->nics_per_node() <= 0) return Missing("nics_per_node", "ranks of different nodes exchange data");
  for (const Ends* ends : {&from, &to}) {
    if (ends->interface >= 0) continue;
    return absl::FailedPreconditionError(absl::StrCat("cluster.other_interfaces leaves node ",
                                                      ends->device / devices_per_node_,
                                                      " no interface, but ranks on it exchange data with other nodes"));
  }
  const Link& bridge = cluster_->node_links().bridge();
  LinkRoute route;
  route.latency_seconds = cluster_->inter_node().latency_seconds();
  route.overhead_seconds = cluster_->inter_node().overhead_seconds();
  // If PCIe links the devices, a message to another node passes the device's PCIe port too.
  const bool by_port = cluster_->intra_node().kind() == PCIE;
  if (by_port) route.links.push_back(from.port);
  if (from.interface_bridge >= 0) {
    route.links.push_back(from.bridge);
    route.links.push_back(from.interface_bridge + 1);
    route.latency_seconds += bridge.latency_seconds();
    route.overhead_seconds += bridge.overhead_seconds();
  }
  route.links.push_back(from.interface);
  AddFabric(from, to, route);
  route.links.push_back(to.interface + 1);
  if (to.interface_bridge >= 0) {
    route.links.push_back(to.interface_bridge);
    route.links.push_back(to.bridge + 1);
    route.latency_seconds += bridge.latency_seconds();
    route.overhead_seconds += bridge.overhead_seconds();
  }
  if (by_port) route.links.push_back(to.port + 1);
  return route;
}

int64_t Topology::PlaceOf(int64_t node) const { return node / cluster_->fabric().nodes_per_switch(); }

void Topology::AddFabric(const Ends& from, const Ends& to, LinkRoute& route) const {
  const Fabric& fabric = cluster_->fabric();
  const int64_t source = from.device / devices_per_node_;
  const int64_t destination = to.device / devices_per_node_;
  if (torus_ >= 0) return AddTorus(source, destination, route);
  if (!HasPlaces(fabric)) return;
  const bool rails = fabric.kind() == RAIL_OPTIMISED;
  const bool other_place = PlaceOf(source) != PlaceOf(destination);
  const bool above = other_place || (rails && from.interface_port != to.interface_port);
  // Switches beyond the first one. In a dragonfly, a message passes two routers in each group. Elsewhere it passes the
  // switch above and the second leaf.
  const int beyond = fabric.kind() == DRAGONFLY ? (other_place ? 3 : 1) : (above ? 2 : 0);
  route.latency_seconds += beyond * fabric.hop_latency_seconds();
  if (!above) return;
  // The destination selects the link: every message to the i-th port below a leaf comes from the same switch above,
  // wherever the message starts.
  const int64_t below = rails ? destination : destination * ports_.ports() + to.interface_port;
  const int64_t which = below % uplinks_;
  const auto link = [&](int64_t node, int32_t port) {
    const int64_t place = PlaceOf(node);
    const auto at = std::lower_bound(places_.begin(), places_.end(), std::pair<int64_t, int32_t>(place, -1));
    return at->second + static_cast<int32_t>(2 * ((rails ? port : 0) * uplinks_ + which));
  };
  route.links.push_back(link(source, from.interface_port));
  route.links.push_back(link(destination, to.interface_port) + 1);
}

void Topology::AddTorus(int64_t from, int64_t to, LinkRoute& route) const {
  const auto& sizes = cluster_->fabric().torus();
  int64_t stride = 1;
  int64_t node = from;
  int64_t hops = 0;
  for (int i = 0; i < sizes.size(); ++i) {
    const int64_t size = sizes[i];
    const int64_t up = (to / stride % size - from / stride % size + size) % size;
    const bool upwards = 2 * up <= size;
    for (int64_t left = upwards ? up : size - up; left > 0; --left) {
      route.links.push_back(torus_ + static_cast<int32_t>(2 * (node * sizes.size() + i)) + (upwards ? 0 : 1));
      const int64_t at = node / stride % size;
      const int64_t next = (at + (upwards ? 1 : size - 1)) % size;
      node += (next - at) * stride;
      ++hops;
    }
    stride *= size;
  }
  if (hops > 1) route.latency_seconds += static_cast<double>(hops - 1) * cluster_->fabric().hop_latency_seconds();
}

}  // namespace weft::sim
