// What the links between ranks carry where the mesh is placed on a cluster, with the interfaces of a node shared by all
// that crosses its border at the same time.
//
// Bandwidth B of a link that leaves a node: the node's NICs together, nics_per_node * inter_node.bytes_per_second,
// divided by the number of process groups that cross the node's border at the same time. For axes i = 0, 1, ... from
// the inside out, of sizes G_i, on nodes of G_node devices, this is Eq. 10 of the AxoNN-4D paper,
//     B_i = B_inter / min(G_node, G_0 * ... * G_(i-1)),
// which counts the groups of axis i on one node; here they are counted for any placement. No device sends faster than
// its own NIC, or its even share of the NICs where there are more NICs than devices.
// Source: Singh et al., "A 4D hybrid algorithm to scale parallel training to thousands of GPUs", arXiv:2305.13525,
//         Eq. 10.
#ifndef WEFT_SIMULATOR_NETWORK_PLACED_LINKS_H_
#define WEFT_SIMULATOR_NETWORK_PLACED_LINKS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/cluster.pb.h"
#include "proto/types.pb.h"
#include "simulator/network/collective_cost.h"
#include "simulator/network/group_form.h"

namespace weft {

// Errors are FailedPrecondition and name the figure that the cluster lacks.
class PlacedLinks {
 public:
  // Both must outlive this.
  PlacedLinks(const Mesh& mesh, const Cluster& cluster);

  const Cluster& cluster() const { return cluster_; }
  int64_t Node(int64_t rank) const { return rank / devices_; }

  // A link between two ranks; `bytes_per_second` is what it has alone.
  absl::StatusOr<MessagePath> Path(int64_t source, int64_t destination) const;
  // What a transfer between them has, while other replicas do the same.
  absl::StatusOr<double> TransferBandwidth(int64_t source, int64_t destination) const;
  // What `inside` members of a group have to other nodes, all on the node of `rank`; of the interfaces alone, or while
  // the groups like theirs do the same.
  absl::StatusOr<double> NodeBandwidth(int64_t rank, int64_t inside, const GroupForm* form) const;

 private:
  absl::Status CheckLink(bool crosses) const;
  int64_t TransfersOut(int64_t from, int64_t to) const;
  int64_t GroupsAcross(int64_t node, const GroupForm& form) const;

  const Mesh& mesh_;
  const Cluster& cluster_;
  const int64_t ranks_;
  const int64_t devices_;
  // Of all NICs of a node, and the most that one device can use of it; bytes per second in each direction.
  const double node_bandwidth_;
  const double device_bandwidth_;
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
  absl::StatusOr<double> Latency() const override;

  int64_t nodes() const { return static_cast<int64_t>(firsts_.size()); }
  // Members on a node.
  int64_t Inside(int32_t node) const { return counts_[node]; }

 private:
  const PlacedLinks& links_;
  const GroupForm* form_;
  absl::Span<const int64_t> members_;
  // By member.
  std::vector<int32_t> nodes_;
  // By node: its first member, and how many there are.
  std::vector<int64_t> firsts_;
  std::vector<int64_t> counts_;
};

}  // namespace weft

#endif  // WEFT_SIMULATOR_NETWORK_PLACED_LINKS_H_
