// The bandwidth of the links between ranks, where the mesh is placed on a cluster. All traffic that leaves a node at
// the same time shares the interfaces of the node.
//
// Bandwidth B between nodes: the traffic of a group that leaves a node is spread evenly over the group's members on the
// node. Each member sends over the links to its own interface. Members of several groups, or several members of one
// group, share a link if they send over it at the same time. Let C_l be the capacity of link l, and g the number of
// members that a group has on the node. Then
//     B = min over links l of its members of C_l / (sum over all members of such groups that use l of 1 / g).
// Let the mesh axes i = 0, 1, ... from the inside out have the sizes G_i, and let nodes have G_node devices, interfaces
// that are alike and the bandwidth B_inter. Then this is Eq. 10 of the AxoNN-4D paper,
//     B_i = B_inter / min(G_node, G_0 * ... * G_(i-1)).
// The paper divides the bandwidth of a node by the number of groups of axis i on it; this file counts the groups where
// the ranks really are. The same formula gives the bandwidth of the links up from an oversubscribed leaf of the fabric,
// where g is the number of members below the leaf. Inside a node, and from node to node, a message has the bandwidth
// that the slowest link of its route has without other traffic (topology.h). Source: Singh et al., "A 4D hybrid
// algorithm to scale parallel training to thousands of GPUs", arXiv:2305.13525,
//         Eq. 10.
#ifndef WEFT_SIMULATOR_NETWORK_PLACED_LINKS_H_
#define WEFT_SIMULATOR_NETWORK_PLACED_LINKS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/cluster.pb.h"
#include "proto/types.pb.h"
#include "simulator/network/collective_cost.h"
#include "simulator/network/group_form.h"
#include "simulator/network/placement.h"
#include "simulator/network/topology.h"

namespace weft::sim {

// The links between the ranks of `mesh` on `cluster`. Errors are FailedPrecondition and name the figure that the
// cluster lacks, or state that the cluster has too few devices. The object caches its counts, so only one thread at a
// time may use it.
class PlacedLinks {
 public:
  // Both arguments must outlive the object.
  PlacedLinks(const Mesh& mesh, const Cluster& cluster);
  PlacedLinks(const PlacedLinks&) = delete;
  PlacedLinks& operator=(const PlacedLinks&) = delete;

  const Cluster& cluster() const { return cluster_; }
  int64_t Node(int64_t rank) const { return placement_.ok() ? placement_->NodeOf(rank) : 0; }

  // Returns the number of the rank's device in its node.
  int64_t DeviceInNode(int64_t rank) const { return placement_.ok() ? placement_->DeviceInNode(rank) : 0; }

  // Returns the path of a message between two ranks. `bytes_per_second` is its bandwidth without other traffic.
  absl::StatusOr<MessagePath> Path(int64_t source, int64_t destination) const;
  // Returns the same path with the bandwidth that a transfer has while other replicas make the same transfer.
  absl::StatusOr<MessagePath> SharedPath(int64_t source, int64_t destination) const;
  // Returns the bandwidth from `ranks`, the members of a group that are on one node, to other nodes. If `form` is null,
  // only these members use the links. Otherwise all groups of that form communicate at the same time.
  absl::StatusOr<double> NodeBandwidth(absl::Span<const int64_t> ranks, const GroupForm* form) const;
  // HasNarrowPlaces() is true if the fabric between nodes carries less than the nodes send. Then Place() is the number
  // of the place of the rank's node, and PlaceBandwidth() is the bandwidth from the members of a group that are in one
  // place to other places.
  bool HasNarrowPlaces() const { return topology_.ok() && topology_->HasNarrowPlaces(); }
  int64_t Place(int64_t rank) const { return HasNarrowPlaces() ? topology_->PlaceOf(Node(rank)) : 0; }
  double PlaceBandwidth(absl::Span<const int64_t> ranks, const GroupForm* form) const;

  // Returns a number for the shape of a group. Groups with the same number take the same times.
  int64_t ShapeOf(const GroupForm& form, absl::Span<const int64_t> members) const;

 private:
  // The users of a link, as pairs. The first number is how many members a group has on the node (or in the place),
  // while other members are elsewhere. The second number is how many members of such groups use the link.
  using Sharing = absl::InlinedVector<std::pair<int64_t, int64_t>, 1>;
  // The counts of all groups of one form.
  struct FormGroups {
    GroupForm form;
    // The users of each link to an interface, by link; and the users of each leaf, by place and leaf.
    absl::flat_hash_map<int32_t, Sharing> of_link;
    absl::flat_hash_map<std::pair<int64_t, int32_t>, Sharing> of_leaf;
    // Shape numbers by the lowest member of the group.
    absl::flat_hash_map<int64_t, int64_t> shapes;
  };

  // Counts transfers that leave one node, or one place, at the same time: pairs of a link to an interface (or a leaf)
  // and the number of transfers that use it.
  using LinkUsers = absl::InlinedVector<std::pair<int32_t, int64_t>, 8>;
  // Identifies the transfers that run at the same time: the node or place, the distance between the sending and the
  // receiving rank, and the axis number and sender's coordinate of each axis on which the two ranks differ.
  using TransferKey = absl::InlinedVector<int64_t, 6>;

  static void AddTo(Sharing& sharing, int64_t members);
  static double Shared(double all, const Sharing& sharing);
  static void AddUser(int32_t link, LinkUsers& users);
  static double UsersOf(int32_t link, const LinkUsers& users);
  absl::Status CheckOutside() const;
  double TransferBandwidth(int64_t from, int64_t to) const;
  LinkUsers UsersOutOfNode(const TransferKey& transfers) const;
  LinkUsers UsersOutOfPlace(const TransferKey& transfers) const;
  bool Sends(const TransferKey& transfers, int64_t rank) const;
  // Returns the lowest member of the group of `rank`, or -1 if the rank is in no group of this form.
  int64_t LowestMember(const GroupForm& form, int64_t rank) const;
  FormGroups& GroupsOf(const GroupForm& form) const;
  void CountGroups(FormGroups& groups) const;

  const Cluster& cluster_;
  const InterfacePorts ports_;
  const absl::StatusOr<RankPlacement> placement_;
  const absl::StatusOr<Topology> topology_;
  // For each mesh axis: its size, and the difference between the numbers of two ranks that are neighbors on it.
  std::vector<int64_t> sizes_, strides_;
  mutable absl::flat_hash_map<TransferKey, LinkUsers> users_out_of_node_, users_out_of_place_;
  mutable std::vector<std::unique_ptr<FormGroups>> forms_;
  // Shape numbers by a key of everything that the times of a group depend on.
  mutable absl::flat_hash_map<std::vector<int64_t>, int64_t> shapes_;
};

// The paths between the members of one group.
class PlacedGroup : public GroupPaths {
 public:
  // All arguments must outlive the object. If `form` is null, no other group uses the interfaces.
  PlacedGroup(const PlacedLinks& links, const GroupForm* form, absl::Span<const int64_t> members);

  int64_t size() const override { return static_cast<int64_t>(members_.size()); }
  int32_t NodeOf(int64_t member) const override { return nodes_[member]; }
  absl::StatusOr<MessagePath> Between(int64_t source, int64_t destination) const override;
  absl::StatusOr<double> NodeBandwidth(int32_t node) const override;
  int32_t PlaceOf(int32_t node) const override { return places_[node]; }
  absl::StatusOr<double> PlaceBandwidth(int32_t place) const override;
  absl::StatusOr<SwitchWay> Switches() const override;
  absl::StatusOr<double> Latency() const override;

  int64_t nodes() const { return static_cast<int64_t>(on_node_.size()); }
  int64_t places() const { return static_cast<int64_t>(in_place_.size()); }
  // Returns the number of members on a node.
  int64_t Inside(int32_t node) const { return static_cast<int64_t>(on_node_[node].size()); }

 private:
  const PlacedLinks& links_;
  const GroupForm* form_;
  absl::Span<const int64_t> members_;
  // The node of each member.
  std::vector<int32_t> nodes_;
  // The ranks on each node, the place of each node, and the ranks in each place.
  std::vector<std::vector<int64_t>> on_node_;
  std::vector<int32_t> places_;
  std::vector<std::vector<int64_t>> in_place_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_PLACED_LINKS_H_
