// Finds the device of a cluster that each rank is on (Cluster.placement), and the kind and speed of that device.
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

// Speed of a device that is as fast as its kind, in millionths of the kind's work per second (rule P12).
inline constexpr int64_t kFullSpeed = 1'000'000;

// The devices of the ranks. A device is a number in the cluster: node * devices_per_node + device in the node. The
// object holds a table of all ranks only if the placement states the device of every rank.
class RankPlacement {
 public:
  // Places ranks 0..ranks-1 on `cluster`, which must outlive the placement. Returns InvalidArgument, naming the nearest
  // valid value, if the cluster or its placement has fewer devices, and ResourceExhausted beyond 2^26 ranks.
  static absl::StatusOr<RankPlacement> Make(int64_t ranks, const Cluster& cluster);

  int64_t ranks() const { return ranks_; }
  int64_t devices_per_node() const { return devices_per_node_; }

  int64_t DeviceOf(int64_t rank) const;
  int64_t NodeOf(int64_t rank) const { return DeviceOf(rank) / devices_per_node_; }
  int64_t DeviceInNode(int64_t rank) const { return DeviceOf(rank) % devices_per_node_; }

  // Returns the nodes that have ranks, and the ranks of one node, both ascending. A node outside the placement has no
  // ranks.
  const std::vector<int64_t>& nodes() const { return nodes_; }
  std::vector<int64_t> RanksOf(int64_t node) const;
  // Returns the devices of all ranks, ascending.
  std::vector<int64_t> Devices() const;

  // Kind and speed of a rank's device. The kind is an index into kinds(): 0 = Cluster.device, i + 1 = the device of
  // Cluster.other_devices[i].
  int32_t KindOf(int64_t rank) const { return KindAndSpeed(rank).first; }
  int64_t SpeedOf(int64_t rank) const { return KindAndSpeed(rank).second; }
  std::pair<int32_t, int64_t> KindAndSpeed(int64_t rank) const;
  // The kinds of devices. A row of other_devices without a device of its own has the same device as Cluster.device.
  const std::vector<const Device*>& kinds() const { return kinds_; }
  // True if the cluster has no other_devices, so that every rank has kind 0 and full speed.
  bool all_alike() const { return rows_everywhere_.empty() && rows_of_node_.empty(); }

 private:
  RankPlacement(int64_t ranks, const Cluster& cluster);

  const Cluster* cluster_;
  int64_t ranks_;
  int64_t devices_per_node_;
  // Number of ranks on each node, in the order of Placement.devices; 0 = the placement states the device of every rank.
  int64_t ranks_per_node_;
  std::vector<int64_t> nodes_;
  // If the placement states the device of every rank: (device, rank), ascending. If it states nodes: (node, index in
  // the list), ascending.
  std::vector<std::pair<int64_t, int64_t>> sorted_;
  std::vector<const Device*> kinds_;
  // Rows of other_devices, ascending: rows that name no node, and for each node the rows that name it.
  std::vector<int32_t> rows_everywhere_;
  absl::flat_hash_map<int64_t, std::vector<int32_t>> rows_of_node_;
};

// The interfaces by which the devices of a node reach other nodes, grouped into ports. With fewer interfaces than
// devices, each interface is a port, and device d of D uses port d * ports / D. Otherwise each device has its own port,
// which is its even share of the interfaces (with a fraction of an interface if they do not divide evenly).
class InterfacePorts {
 public:
  // `cluster` must outlive the object.
  explicit InterfacePorts(const Cluster& cluster);

  // Returns the number of ports per node: min(nics_per_node, devices_per_node).
  int64_t ports() const { return ports_; }
  // Returns the bandwidth of a port of `node` in each direction, relative to one interface: between 0 (the whole port
  // is down) and nics_per_node / ports.
  double Share(int64_t node, int64_t port) const;
  // Returns the sum over all ports of the node; 0 = the node is cut off.
  double NodeShare(int64_t node) const;
  // Returns the port that a device uses; -1 = all ports are down. A device whose own port is down shares the working
  // port with the nearest number (the lower one of two).
  int64_t PortOf(int64_t node, int64_t device_in_node) const;
  // True if no row of Cluster.other_interfaces changes an interface, so that all are as in Cluster.inter_node.
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
