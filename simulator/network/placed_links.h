// What the links between ranks carry where the mesh is placed on a cluster, with the interfaces of a node shared by all
// that crosses its border at the same time.
//
// Bandwidth B between nodes: what leaves a node is spread evenly over the members of a group that are on it, each of
// which sends by the links to its own interface. A link that members of several groups send by at the same time, or
// several of one, is shared: with g the members that a group has on the node,
//     B = min over links l of its members of C_l / (sum over all members of such groups that use l of 1 / g).
// For axes i = 0, 1, ... from the inside out, of sizes G_i, on nodes of G_node devices with interfaces that are alike,
// this is Eq. 10 of the AxoNN-4D paper,
//     B_i = B_inter / min(G_node, G_0 * ... * G_(i-1)),
// which divides the interfaces of a node by the groups of axis i on it; here they are counted where the ranks really
// are. The same holds of links up from a leaf of the fabric that is oversubscribed, with g the members below it. Inside
// a node, and from node to node, a message has what the slowest link of its route carries alone (topology.h).
// Source: Singh et al., "A 4D hybrid algorithm to scale parallel training to thousands of GPUs", arXiv:2305.13525,
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

// Errors are FailedPrecondition and name the figure that the cluster lacks, or say that it has too few devices.
// Remembers what it has counted: not for several threads at a time.
class PlacedLinks {
 public:
  // Both must outlive this.
  PlacedLinks(const Mesh& mesh, const Cluster& cluster);
  PlacedLinks(const PlacedLinks&) = delete;
  PlacedLinks& operator=(const PlacedLinks&) = delete;

  const Cluster& cluster() const { return cluster_; }
  int64_t Node(int64_t rank) const { return placement_.ok() ? placement_->NodeOf(rank) : 0; }

  // Its number in the node.
  int64_t DeviceInNode(int64_t rank) const { return placement_.ok() ? placement_->DeviceInNode(rank) : 0; }

  // A link between two ranks; `bytes_per_second` is what it has alone.
  absl::StatusOr<MessagePath> Path(int64_t source, int64_t destination) const;
  // The same with what a transfer has while other replicas do the same.
  absl::StatusOr<MessagePath> SharedPath(int64_t source, int64_t destination) const;
  // What the members of a group that are on one node have to other nodes; of the interfaces alone, or while the groups
  // like theirs do the same.
  absl::StatusOr<double> NodeBandwidth(absl::Span<const int64_t> ranks, const GroupForm* form) const;
  // Whether the fabric between nodes carries less than they send; then the place of a node, as its number, and what the
  // members of a group that are in one place have to other places.
  bool HasNarrowPlaces() const { return topology_.ok() && topology_->HasNarrowPlaces(); }
  int64_t Place(int64_t rank) const { return HasNarrowPlaces() ? topology_->PlaceOf(Node(rank)) : 0; }
  double PlaceBandwidth(absl::Span<const int64_t> ranks, const GroupForm* form) const;

  // Groups of one number take the same times.
  int64_t ShapeOf(const GroupForm& form, absl::Span<const int64_t> members) const;

 private:
  // Who uses a link: pairs of how many members a group has on the node (or in the place), others being elsewhere, and
  // how many members of such groups use it.
  using Sharing = absl::InlinedVector<std::pair<int64_t, int64_t>, 1>;
  // Of one form of groups.
  struct FormGroups {
    GroupForm form;
    // By link to an interface; by place and leaf.
    absl::flat_hash_map<int32_t, Sharing> of_link;
    absl::flat_hash_map<std::pair<int64_t, int32_t>, Sharing> of_leaf;
    // By their lowest members.
    absl::flat_hash_map<int64_t, int64_t> shapes;
  };

  // How many transfers that begin on one node, or in one place, and go to other ones at the same time use a link out of
  // it: by link to an interface, or by leaf.
  using LinkUsers = absl::InlinedVector<std::pair<int32_t, int64_t>, 8>;
  // What tells such transfers from others: node or place, distance of the ranks at their ends, and of each axis on
  // which these differ its number and the coordinate of the sender.
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
  // The lowest member of the group of `rank`, or -1 if it takes no part.
  int64_t LowestMember(const GroupForm& form, int64_t rank) const;
  FormGroups& GroupsOf(const GroupForm& form) const;
  void CountGroups(FormGroups& groups) const;

  const Cluster& cluster_;
  const InterfacePorts ports_;
  const absl::StatusOr<RankPlacement> placement_;
  const absl::StatusOr<Topology> topology_;
  // By axis of the mesh.
  std::vector<int64_t> sizes_, strides_;
  mutable absl::flat_hash_map<TransferKey, LinkUsers> users_out_of_node_, users_out_of_place_;
  mutable std::vector<std::unique_ptr<FormGroups>> forms_;
  // What tells times of groups apart.
  mutable absl::flat_hash_map<std::vector<int64_t>, int64_t> shapes_;
};

// The members of a group on those links.
class PlacedGroup : public GroupPaths {
 public:
  // All must outlive this. `form` null: no other group uses the interfaces.
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
  // Members on a node.
  int64_t Inside(int32_t node) const { return static_cast<int64_t>(on_node_[node].size()); }

 private:
  const PlacedLinks& links_;
  const GroupForm* form_;
  absl::Span<const int64_t> members_;
  // By member.
  std::vector<int32_t> nodes_;
  // By node, its ranks and its place; by place, its ranks.
  std::vector<std::vector<int64_t>> on_node_;
  std::vector<int32_t> places_;
  std::vector<std::vector<int64_t>> in_place_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NETWORK_PLACED_LINKS_H_
