// The links that the ranks of a program can use on a cluster, and the route of a message over them (docs/simulator.md,
// "Machines").
#ifndef WEFT_SIMULATOR_NETWORK_TOPOLOGY_H_
#define WEFT_SIMULATOR_NETWORK_TOPOLOGY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "simulator/network/placement.h"

namespace weft::sim {

// The part of the machine that a link belongs to. "Out" and "up" lead away from the device.
enum class LinkRole : uint8_t {
  // From a device to the switch of its node, or back. place = node, index = device in the node.
  kDeviceOut,
  kDeviceIn,
  // From one device of a node to another. place = node, index = from, to = to.
  kPair,
  // From a bridge to the rest of its node, or back. place = node, index = bridge.
  kBridgeOut,
  kBridgeIn,
  // A port of interfaces (placement.h). place = node, index = port.
  kInterfaceOut,
  kInterfaceIn,
  // Between a leaf switch and one of the switches above it. place = leaf group, index = number of the uplink, to = rail
  // of the leaf (0 in a fat tree).
  kLeafUp,
  kLeafDown,
  // From a group of a dragonfly to all other groups, or back. place = group.
  kGroupOut,
  kGroupIn,
  // From a node of a torus to its neighbor. place = node, index = dimension.
  kTorusUp,
  kTorusDown,
};

// One direction of a link.
struct TopologyLink {
  LinkRole role = LinkRole::kDeviceOut;
  int64_t place = 0;
  int32_t index = 0;
  int32_t to = 0;
  int64_t bytes_per_second = 0;
};

struct LinkRoute {
  // Links in the order in which a message passes them, without repeats; empty from a device to itself.
  std::vector<int32_t> links;
  double latency_seconds = 0;
  // Time for which both ends are busy in addition to the time of the bytes.
  double overhead_seconds = 0;
};

class Topology {
 public:
  // Returns the links between the devices of `placement`. Both arguments must outlive the topology. The order of the
  // links depends only on the cluster and on the devices that the placement uses. ResourceExhausted beyond 2^24 links.
  static absl::StatusOr<Topology> Make(const Cluster& cluster, const RankPlacement& placement);

  const std::vector<TopologyLink>& links() const { return links_; }
  // Returns a name such as "node 3 nic 1 out".
  std::string LinkName(int32_t link) const;

  // Returns the links of a message from a placed device up to and including its interface, in order. Empty if all
  // interfaces of the node are down, or if the device needs no interface.
  absl::InlinedVector<int32_t, 4> OutLinks(int64_t device) const;

  // True if the fabric above the nodes with ranks (the leaves of a fat tree or of rails, the groups of a dragonfly)
  // carries less than the nodes send together. Then LeafBytesPerSecond() is the bandwidth of all links up (or down) of
  // one leaf, which PlaceOf() and LeafOf() identify.
  bool HasNarrowPlaces() const { return leaf_bytes_per_second_ > 0; }
  int64_t PlaceOf(int64_t node) const;
  int32_t LeafOf(int64_t device) const;
  double LeafBytesPerSecond() const { return leaf_bytes_per_second_; }

  // Returns the route from one placed device to another; devices are numbers in the cluster. Returns
  // FailedPrecondition, naming the field, if the cluster lacks a figure of the route. Every call with the same devices
  // has the same answer.
  absl::StatusOr<LinkRoute> Route(int64_t from, int64_t to) const;
  absl::StatusOr<LinkRoute> RouteOfRanks(int64_t from, int64_t to) const {
    return Route(placement_->DeviceOf(from), placement_->DeviceOf(to));
  }

 private:
  // The links at a placed device.
  struct Ends {
    int64_t device = 0;
    // Links exist in pairs: one out of the device, followed by one in. These are the links out; -1 = none.
    int32_t port = -1;
    int32_t bridge = -1;
    int32_t interface = -1;
    // The bridge above the device's interface, if that is not the device's own bridge; -1 = it is, or there is no
    // bridge.
    int32_t interface_bridge = -1;
    // Number of the interface port (InterfacePorts) that the device uses.
    int32_t interface_port = -1;
  };

  Topology(const Cluster& cluster, const RankPlacement& placement);
  absl::Status Build();
  absl::Status BuildNode(size_t begin, size_t end);
  void BuildPairs(size_t begin, size_t end);
  void BuildInterfaces(size_t begin, size_t end);
  absl::Status BuildFabric();
  absl::Status BuildTorus();
  // Adds a link and, after it, the link in the other direction. `role` is the role of the first link.
  int32_t AddBoth(LinkRole role, int64_t place, int64_t index, int64_t to, double bytes_per_second);
  absl::Status CheckSize(double more) const;

  const Ends* Find(int64_t device) const;
  absl::StatusOr<LinkRoute> Inside(const Ends& from, const Ends& to) const;
  absl::StatusOr<LinkRoute> Outside(const Ends& from, const Ends& to) const;
  // Adds the links between the interfaces of two nodes, and the latency of the switches beyond the first one.
  void AddFabric(const Ends& from, const Ends& to, LinkRoute& route) const;
  void AddTorus(int64_t from, int64_t to, LinkRoute& route) const;

  const Cluster* cluster_;
  const RankPlacement* placement_;
  InterfacePorts ports_;
  int64_t devices_per_node_;
  std::vector<TopologyLink> links_;
  // The links at each placed device, in ascending order of devices.
  std::vector<Ends> ends_;
  // The link from the lower to the higher of two devices; the opposite link follows it. The key is the pair of their
  // indices into ends_, with the lower index in the upper half.
  absl::flat_hash_map<uint64_t, int32_t> pairs_;
  // The row of NodeLinks.direct of each pair of devices in a node.
  absl::flat_hash_map<uint64_t, int32_t> direct_rows_;
  // First link of each leaf group (or dragonfly group), ascending by group.
  std::vector<std::pair<int64_t, int32_t>> places_;
  // Number of links from one leaf to the switches above it.
  int64_t uplinks_ = 0;
  // Bandwidth of all links up from one leaf; 0 = all nodes are in one place, or the places carry all that nodes send.
  double leaf_bytes_per_second_ = 0;
  // First link of the torus. The links of a node are in order of dimensions, up and down.
  int32_t torus_ = -1;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_TOPOLOGY_H_
