// Which device of a cluster each rank is on (Cluster.placement), and what that device is like.
#ifndef WEFT_SIMULATOR_NETWORK_PLACEMENT_H_
#define WEFT_SIMULATOR_NETWORK_PLACEMENT_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/cluster.pb.h"

namespace weft::sim {

// Work per second of a device that is like its kind, in millionths of the kind's (rule P12).
inline constexpr int64_t kFullSpeed = 1'000'000;

// A device by its number in the cluster: node * devices_per_node + device of the node. Makes no table of all ranks.
class RankPlacement {
 public:
  // Ranks 0..ranks-1 on `cluster`, which must outlive the placement. InvalidArgument, naming the nearest valid value,
  // if the cluster or its placement has fewer devices; ResourceExhausted beyond 2^26 ranks.
  static absl::StatusOr<RankPlacement> Make(int64_t ranks, const Cluster& cluster);

  int64_t ranks() const { return ranks_; }
  int64_t devices_per_node() const { return devices_per_node_; }

  int64_t DeviceOf(int64_t rank) const;
  int64_t NodeOf(int64_t rank) const { return DeviceOf(rank) / devices_per_node_; }
  int64_t DeviceInNode(int64_t rank) const { return DeviceOf(rank) % devices_per_node_; }

  // The nodes that have ranks, ascending; and the ranks of one, ascending (none of a node that is not placed on).
  const std::vector<int64_t>& nodes() const { return nodes_; }
  std::vector<int64_t> RanksOf(int64_t node) const;
  // Devices of all ranks, ascending.
  std::vector<int64_t> Devices() const;

  // Index into kinds(): 0 = Cluster.device, i + 1 = that of Cluster.other_devices[i]. Both of a rank.
  int32_t KindOf(int64_t rank) const { return KindAndSpeed(rank).first; }
  int64_t SpeedOf(int64_t rank) const { return KindAndSpeed(rank).second; }
  std::pair<int32_t, int64_t> KindAndSpeed(int64_t rank) const;
  // Rows of other_devices without a device of their own repeat Cluster.device.
  const std::vector<const Device*>& kinds() const { return kinds_; }
  // Whether every rank has kind 0 and full speed, without looking at ranks.
  bool all_alike() const { return rows_everywhere_.empty() && rows_of_node_.empty(); }

 private:
  RankPlacement(int64_t ranks, const Cluster& cluster);

  const Cluster* cluster_;
  int64_t ranks_;
  int64_t devices_per_node_;
  // Ranks that a node takes, in the order of Placement.devices; 0 = every rank has its device stated.
  int64_t ranks_per_node_;
  std::vector<int64_t> nodes_;
  // With devices stated: (device, rank), ascending. Else with nodes stated: (node, its place in the list), ascending.
  std::vector<std::pair<int64_t, int64_t>> sorted_;
  std::vector<const Device*> kinds_;
  // Rows of other_devices, ascending: those that name no node, and those that name this one.
  std::vector<int32_t> rows_everywhere_;
  absl::flat_hash_map<int64_t, std::vector<int32_t>> rows_of_node_;
};

// The interfaces by which the devices of a node reach other nodes, gathered to ports: with fewer interfaces than
// devices each is a port, device d of D using port d * ports / D; with at least as many each device has a port of its
// own, which is its even share of the interfaces (a part of one where they do not divide).
class InterfacePorts {
 public:
  // `cluster` must outlive this.
  explicit InterfacePorts(const Cluster& cluster);

  // Ports per node: min(nics_per_node, devices_per_node).
  int64_t ports() const { return ports_; }
  // What a port of `node` carries in each direction, relative to one interface: between 0 (all of it is down) and
  // nics_per_node / ports.
  double Share(int64_t node, int64_t port) const;
  // Of all ports of the node together; 0 = the node is cut off.
  double NodeShare(int64_t node) const;
  // The port that a device uses: its own, or if that is down the nearest in number that is not (the lower of two),
  // which it then shares; -1 if all are down.
  int64_t PortOf(int64_t node, int64_t device_in_node) const;
  // Whether all interfaces of all nodes are as Cluster.inter_node says.
  bool all_alike() const { return rows_everywhere_.empty() && rows_of_node_.empty(); }

 private:
  double InterfaceFraction(int64_t node, int64_t interface) const;

  const Cluster* cluster_;
  int64_t interfaces_;
  int64_t devices_;
  int64_t ports_;
  std::vector<int32_t> rows_everywhere_;
  absl::flat_hash_map<int64_t, std::vector<int32_t>> rows_of_node_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_PLACEMENT_H_
