// The links that the ranks of a program can use on a cluster, and which of them a message takes (docs/simulator.md,
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

// What a link is part of. "Out" and "up" lead away from the device.
enum class LinkRole : uint8_t {
  // Of a device to the switch of its node. place = node, index = device in the node.
  kDeviceOut,
  kDeviceIn,
  // From one device of a node to another. place = node, index = from, to = to.
  kPair,
  // Of a bridge to the rest of its node. place = node, index = bridge.
  kBridgeOut,
  kBridgeIn,
  // Of a port of interfaces (placement.h). place = node, index = port.
  kInterfaceOut,
  kInterfaceIn,
  // Between a leaf switch and one of the switches above it. place = leaf group, index = which, to = the rail of the
  // leaf
  // (0 in a fat tree).
  kLeafUp,
  kLeafDown,
  // Of a dragonfly's group to all others. place = group.
  kGroupOut,
  kGroupIn,
  // From a node of a torus to its neighbour. place = node, index = dimension.
  kTorusUp,
  kTorusDown,
};

// One direction.
struct TopologyLink {
  LinkRole role = LinkRole::kDeviceOut;
  int64_t place = 0;
  int32_t index = 0;
  int32_t to = 0;
  int64_t bytes_per_second = 0;
};

struct LinkRoute {
  // In the order in which a message passes them, no two alike; empty for a device and itself.
  std::vector<int32_t> links;
  double latency_seconds = 0;
  // Both ends are busy for so long besides the bytes.
  double overhead_seconds = 0;
};

class Topology {
 public:
  // The links between the devices of `placement`; both must outlive the topology. Their order depends on nothing but
  // the cluster and which devices are placed on. ResourceExhausted beyond 2^24 links.
  static absl::StatusOr<Topology> Make(const Cluster& cluster, const RankPlacement& placement);

  const std::vector<TopologyLink>& links() const { return links_; }
  // "node 3 nic 1 out".
  std::string LinkName(int32_t link) const;

  // The links of a message from a placed device to its interface, that one included, in order; empty = all interfaces
  // of the node are down, or it needs none.
  absl::InlinedVector<int32_t, 4> OutLinks(int64_t device) const;

  // What of the fabric the nodes with ranks meet above, if that carries less than they send together (a fat tree's or
  // rails' leaves, a dragonfly's groups): by place and leaf, bytes per second of all links up (or down).
  bool HasNarrowPlaces() const { return leaf_bytes_per_second_ > 0; }
  int64_t PlaceOf(int64_t node) const;
  int32_t LeafOf(int64_t device) const;
  double LeafBytesPerSecond() const { return leaf_bytes_per_second_; }

  // From one placed device to another, by number in the cluster. FailedPrecondition, naming the field, if the cluster
  // lacks a figure of the way; the answer is the same at every call.
  absl::StatusOr<LinkRoute> Route(int64_t from, int64_t to) const;
  absl::StatusOr<LinkRoute> RouteOfRanks(int64_t from, int64_t to) const {
    return Route(placement_->DeviceOf(from), placement_->DeviceOf(to));
  }

 private:
  // Of a placed device.
  struct Ends {
    int64_t device = 0;
    // First links of pairs (out, in); -1 = none.
    int32_t port = -1;
    int32_t bridge = -1;
    int32_t interface = -1;
    // Of the bridge that its interface is behind, if that is another; -1 = its own or none.
    int32_t interface_bridge = -1;
    // Port of interfaces.
    int32_t interface_port = -1;
  };

  Topology(const Cluster& cluster, const RankPlacement& placement);
  absl::Status Build();
  absl::Status BuildNode(size_t begin, size_t end);
  void BuildPairs(size_t begin, size_t end);
  void BuildInterfaces(size_t begin, size_t end);
  absl::Status BuildFabric();
  absl::Status BuildTorus();
  // Adds a link and the one of the other direction behind it; `role` is the first's.
  int32_t AddBoth(LinkRole role, int64_t place, int64_t index, int64_t to, double bytes_per_second);
  absl::Status CheckSize(double more) const;

  const Ends* Find(int64_t device) const;
  absl::StatusOr<LinkRoute> Inside(const Ends& from, const Ends& to) const;
  absl::StatusOr<LinkRoute> Outside(const Ends& from, const Ends& to) const;
  // Adds the links between the interfaces of two nodes, and the latency of switches beyond the first.
  void AddFabric(const Ends& from, const Ends& to, LinkRoute& route) const;
  void AddTorus(int64_t from, int64_t to, LinkRoute& route) const;

  const Cluster* cluster_;
  const RankPlacement* placement_;
  InterfacePorts ports_;
  int64_t devices_per_node_;
  std::vector<TopologyLink> links_;
  // By device, ascending.
  std::vector<Ends> ends_;
  // By indices into ends_, the lower one in the upper half: the link from the lower to the higher, the other behind it.
  absl::flat_hash_map<uint64_t, int32_t> pairs_;
  // By row of NodeLinks.direct, of a pair of devices in a node: the row.
  absl::flat_hash_map<uint64_t, int32_t> direct_rows_;
  // First link of a leaf group or group, ascending by group.
  std::vector<std::pair<int64_t, int32_t>> places_;
  // Links from one leaf to the switches above it.
  int64_t uplinks_ = 0;
  // 0: nodes are not of several places, or these carry all that they send.
  double leaf_bytes_per_second_ = 0;
  // First link of the torus; those of a node by dimension, up and down.
  int32_t torus_ = -1;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_TOPOLOGY_H_
