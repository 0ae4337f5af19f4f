#include "simulator/network/placement.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace weft::sim {
namespace {

// Sorts the rows of a list: rows that name no node into `everywhere`, the others into `of_node` by the nodes they name.
template <typename Rows>
void IndexRows(const Rows& rows, std::vector<int32_t>* everywhere,
               absl::flat_hash_map<int64_t, std::vector<int32_t>>* of_node) {
  for (int32_t i = 0; i < rows.size(); ++i) {
    if (rows[i].nodes_size() == 0) everywhere->push_back(i);
    for (const int64_t node : rows[i].nodes()) (*of_node)[node].push_back(i);
  }
}

// Returns the last of `rows` that `names` accepts, or -1.
template <typename Names>
int32_t LastRow(const std::vector<int32_t>& rows, const Names& names) {
  for (size_t i = rows.size(); i-- > 0;) {
    if (names(rows[i])) return rows[i];
  }
  return -1;
}

// Returns the last row that applies to `node` and whose list, given by `parts`, is empty or contains `part`; -1 = none.
// A row that names no node applies to all nodes.
template <typename Parts>
int32_t LastRowOf(const std::vector<int32_t>& everywhere,
                  const absl::flat_hash_map<int64_t, std::vector<int32_t>>& of_node, int64_t node, int64_t part,
                  const Parts& parts) {
  const auto names = [&](int32_t row) {
    const auto& listed = parts(row);
    return listed.empty() || std::find(listed.begin(), listed.end(), part) != listed.end();
  };
  int32_t last = LastRow(everywhere, names);
  const auto own = of_node.find(node);
  if (own != of_node.end()) last = std::max(last, LastRow(own->second, names));
  return last;
}

// The largest number of ranks for which a placement and a topology fit in memory.
constexpr int64_t kMaxRanks = int64_t{1} << 26;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Returns the number of ranks on each node; the last node may have fewer. Launchers start the same number of processes
// on every node. On racks of 72 devices, 128 ranks run as 64 on each of two racks, not as 72 and 56.
int64_t RanksPerNode(int64_t ranks, const Cluster& cluster) {
  if (cluster.placement().devices_size() > 0) return cluster.placement().devices_size();
  const int64_t devices = std::max<int64_t>(cluster.devices_per_node(), 1);
  const int64_t nodes = std::max<int64_t>(1, CeilDivide(ranks, devices));
  return ranks > devices && ranks % nodes == 0 ? ranks / nodes : devices;
}

absl::Status CheckDeviceCount(int64_t ranks, int64_t per_node, const Cluster& cluster) {
  const Placement& placement = cluster.placement();
  const std::string needed = absl::StrCat(", but the program has ", ranks, " ranks; ");
  if (placement.devices_of_ranks_size() > 0) {
    if (placement.devices_of_ranks_size() >= ranks) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("cluster.placement.devices_of_ranks has ",
                                                   placement.devices_of_ranks_size(), " devices", needed,
                                                   "it must name one device for each rank"));
  }
  const bool some = placement.nodes_size() > 0;
  const int64_t nodes = some ? placement.nodes_size() : std::max<int64_t>(cluster.nodes(), 1);
  // The comparison avoids a product, which could overflow: the cluster may not have been validated.
  if (CeilDivide(ranks, per_node) <= nodes) return absl::OkStatus();
  const bool listed = placement.devices_size() > 0;
  const int64_t devices = listed ? placement.devices_size() : std::max<int64_t>(cluster.devices_per_node(), 1);
  return absl::InvalidArgumentError(absl::StrCat(
      "cluster '", cluster.name(), "' has ", nodes, nodes == 1 ? " node" : " nodes",
      some ? " in cluster.placement.nodes with " : " with ", devices, devices == 1 ? " device" : " devices",
      nodes == 1 ? "" : " each", listed ? " in cluster.placement.devices" : "", needed,
      some ? "cluster.placement.nodes must list at least " : "cluster.nodes must be at least ",
      CeilDivide(ranks, per_node), some ? " nodes" : ""));
}

}  // namespace

RankPlacement::RankPlacement(int64_t ranks, const Cluster& cluster)
    : cluster_(&cluster), ranks_(ranks), devices_per_node_(std::max<int64_t>(cluster.devices_per_node(), 1)) {
  const Placement& placement = cluster.placement();
  if (placement.devices_of_ranks_size() > 0) {
    ranks_per_node_ = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      sorted_.emplace_back(placement.devices_of_ranks(static_cast<int>(rank)), rank);
    }
    std::sort(sorted_.begin(), sorted_.end());
    for (const auto& [device, rank] : sorted_) {
      const int64_t node = device / devices_per_node_;
      if (nodes_.empty() || nodes_.back() != node) nodes_.push_back(node);
    }
  } else {
    ranks_per_node_ = RanksPerNode(ranks, cluster);
    const int64_t nodes = CeilDivide(ranks, ranks_per_node_);
    for (int64_t i = 0; i < nodes; ++i) {
      if (placement.nodes_size() > 0) sorted_.emplace_back(placement.nodes(static_cast<int>(i)), i);
      nodes_.push_back(placement.nodes_size() > 0 ? placement.nodes(static_cast<int>(i)) : i);
    }
    std::sort(sorted_.begin(), sorted_.end());
    std::sort(nodes_.begin(), nodes_.end());
  }

  kinds_.push_back(&cluster.device());
  for (const OtherDevices& row : cluster.other_devices()) {
    kinds_.push_back(row.has_device() ? &row.device() : &cluster.device());
  }
  IndexRows(cluster.other_devices(), &rows_everywhere_, &rows_of_node_);
}

absl::StatusOr<RankPlacement> RankPlacement::Make(int64_t ranks, const Cluster& cluster) {
  if (ranks > kMaxRanks) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the program has ", ranks, " ranks; at most ", kMaxRanks, " can be placed on devices"));
  }
  const int64_t per_node = cluster.placement().devices_size() > 0 ? cluster.placement().devices_size()
                                                                  : std::max<int64_t>(cluster.devices_per_node(), 1);
  const absl::Status room = CheckDeviceCount(ranks, per_node, cluster);
  if (!room.ok()) return room;
  return RankPlacement(ranks, cluster);
}

int64_t RankPlacement::DeviceOf(int64_t rank) const {
  const Placement& placement = cluster_->placement();
  if (ranks_per_node_ == 0) return placement.devices_of_ranks(static_cast<int>(rank));
  int64_t node = rank / ranks_per_node_;
  int64_t device = rank % ranks_per_node_;
  if (placement.nodes_size() > 0) node = placement.nodes(static_cast<int>(node));
  if (placement.devices_size() > 0) device = placement.devices(static_cast<int>(device));
  return node * devices_per_node_ + device;
}

std::vector<int64_t> RankPlacement::RanksOf(int64_t node) const {
  std::vector<int64_t> ranks;
  if (ranks_per_node_ == 0) {
    const std::pair<int64_t, int64_t> first(node * devices_per_node_, 0);
    for (auto at = std::lower_bound(sorted_.begin(), sorted_.end(), first);
         at != sorted_.end() && at->first / devices_per_node_ == node; ++at) {
      ranks.push_back(at->second);
    }
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }
  int64_t place = node;
  if (!sorted_.empty()) {
    const auto at = std::lower_bound(sorted_.begin(), sorted_.end(), std::pair<int64_t, int64_t>(node, 0));
    if (at == sorted_.end() || at->first != node) return ranks;
    place = at->second;
  }
  if (place < 0 || place >= static_cast<int64_t>(nodes_.size())) return ranks;
  for (int64_t rank = place * ranks_per_node_; rank < std::min((place + 1) * ranks_per_node_, ranks_); ++rank) {
    ranks.push_back(rank);
  }
  return ranks;
}

std::vector<int64_t> RankPlacement::Devices() const {
  std::vector<int64_t> devices;
  devices.reserve(ranks_);
  for (int64_t rank = 0; rank < ranks_; ++rank) devices.push_back(DeviceOf(rank));
  std::sort(devices.begin(), devices.end());
  return devices;
}

std::pair<int32_t, int64_t> RankPlacement::KindAndSpeed(int64_t rank) const {
  if (all_alike()) return {0, kFullSpeed};
  const int64_t device = DeviceOf(rank);
  const int32_t row = LastRowOf(rows_everywhere_, rows_of_node_, device / devices_per_node_, device % devices_per_node_,
                                [&](int32_t i) -> const google::protobuf::RepeatedField<int64_t>& {
                                  return cluster_->other_devices(i).devices();
                                });
  if (row < 0) return {0, kFullSpeed};
  const OtherDevices& other = cluster_->other_devices(row);
  const double speed = other.speed() > 0 ? other.speed() : 1;
  return {other.has_device() ? row + 1 : 0,
          std::max<int64_t>(1, std::llround(std::min(speed * static_cast<double>(kFullSpeed), 1e15)))};
}

InterfacePorts::InterfacePorts(const Cluster& cluster)
    : cluster_(&cluster),
      interfaces_(std::max<int64_t>(cluster.nics_per_node(), 0)),
      devices_(std::max<int64_t>(cluster.devices_per_node(), 1)),
      ports_(std::min(interfaces_, devices_)) {
  IndexRows(cluster.other_interfaces(), &rows_everywhere_, &rows_of_node_);
}

double InterfacePorts::InterfaceFraction(int64_t node, int64_t interface) const {
  const int32_t row = LastRowOf(rows_everywhere_, rows_of_node_, node, interface,
                                [&](int32_t i) -> const google::protobuf::RepeatedField<int64_t>& {
                                  return cluster_->other_interfaces(i).interfaces();
                                });
  if (row < 0) return 1;
  const OtherInterfaces& other = cluster_->other_interfaces(row);
  return other.down() ? 0 : other.fraction();
}

double InterfacePorts::Share(int64_t node, int64_t port) const {
  if (ports_ == 0) return 0;
  if (all_alike()) return static_cast<double>(interfaces_) / static_cast<double>(ports_);
  if (interfaces_ <= devices_) return InterfaceFraction(node, port);
  // In units of 1 / ports of an interface, the port's share reaches from port * interfaces to (port + 1) * interfaces.
  const int64_t begin = port * interfaces_;
  const int64_t end = begin + interfaces_;
  double share = 0;
  for (int64_t i = begin / ports_; i * ports_ < end; ++i) {
    const int64_t overlap = std::min(end, (i + 1) * ports_) - std::max(begin, i * ports_);
    share += InterfaceFraction(node, i) * static_cast<double>(overlap) / static_cast<double>(ports_);
  }
  return share;
}

double InterfacePorts::NodeShare(int64_t node) const {
  if (all_alike()) return static_cast<double>(interfaces_);
  double share = 0;
  for (int64_t port = 0; port < ports_; ++port) share += Share(node, port);
  return share;
}

int64_t InterfacePorts::PortOf(int64_t node, int64_t device_in_node) const {
  if (ports_ == 0) return -1;
  const int64_t own = device_in_node * ports_ / devices_;
  if (all_alike()) return own;
  for (int64_t away = 0; away < ports_; ++away) {
    if (own - away >= 0 && Share(node, own - away) > 0) return own - away;
    if (own + away < ports_ && Share(node, own + away) > 0) return own + away;
  }
  return -1;
}

}  // namespace weft::sim
