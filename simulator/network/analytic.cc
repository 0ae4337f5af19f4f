// The "analytic" network: closed forms of overhead, bandwidth and latency, with the bandwidth that the placement
// leaves.
//
// Transfer of S bytes:          occupancy = overhead + S / B                                    finished latency later
// Collective of n members, in rounds in lock step, each of `messages` messages of c bytes, the longest chunk of each
// buffer (collective_call.h):
//   ring (one message a round, to the next member):   each round max over links (overhead + c / B)
//   direct (messages to all others, one by one):      each round max over nodes, g of the members being on it, of
//                                                     (g-1) (overhead + c / B_intra) + (n-g) (overhead + g c / B)
//   occupancy = rounds * round + (rounds - 1) * latency                                       finished latency later
// For the ring over S bytes that is (n-1) (overhead + latency) + (n-1)/n S / B for an all-gather or a reduce-scatter,
// twice that for an all-reduce: the bandwidth-optimal forms of Thakur et al. 2005, Eq. 1 to 3 of the AxoNN-4D paper.
//
// Bandwidth B of a link that leaves a node: the node's NICs together, nics_per_node * inter_node.bytes_per_second,
// divided by the number of process groups that cross the node's border at the same time. For axes i = 0, 1, ... from
// the inside out, of sizes G_i, on nodes of G_node devices, this is Eq. 10 of the AxoNN-4D paper,
//     B_i = B_inter / min(G_node, G_0 * ... * G_(i-1)),
// which counts the groups of axis i on one node; here they are counted for any placement. No device sends faster than
// its own NIC, or its even share of the NICs where there are more NICs than devices.
// Sources: Singh et al., "A 4D hybrid algorithm to scale parallel training to thousands of GPUs", arXiv:2305.13525,
//          Eq. 1-3 and 10. Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH",
//          IJHPCA 19(1), 2005, sec. 4.
#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/mesh.h"
#include "proto/status.h"
#include "simulator/network/network_model.h"

namespace weft {
namespace {

absl::Status Missing(absl::string_view field, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("cluster.", field, " must be positive: ", why));
}

class AnalyticNetwork : public NetworkModel {
 public:
  AnalyticNetwork(const Mesh& mesh, const Cluster& cluster)
      : mesh_(mesh),
        cluster_(cluster),
        ranks_(MeshRanks(mesh)),
        devices_(std::max<int64_t>(cluster.devices_per_node(), 1)),
        node_bandwidth_(static_cast<double>(cluster.nics_per_node()) * cluster.inter_node().bytes_per_second()),
        device_bandwidth_(std::max(cluster.inter_node().bytes_per_second(), node_bandwidth_ / devices_)) {}

  absl::StatusOr<TransferTime> Transfer(int64_t source, int64_t destination, int64_t bytes) const override {
    const bool crosses = Node(source) != Node(destination);
    const Link& link = crosses ? cluster_.inter_node() : cluster_.intra_node();
    WEFT_RETURN_IF_ERROR(CheckLink(crosses));
    double bandwidth = link.bytes_per_second();
    if (crosses) {
      const int64_t sharing = std::max(TransfersOut(source, destination), TransfersOut(destination, source));
      bandwidth = std::min(device_bandwidth_, node_bandwidth_ / static_cast<double>(sharing));
    }
    return TransferTime{FromSeconds(link.overhead_seconds() + static_cast<double>(bytes) / bandwidth),
                        FromSeconds(link.latency_seconds())};
  }

  absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm& form,
                                          absl::Span<const int64_t> members) const override {
    double time = 0;
    double rounds = 0;
    double latency = 0;
    for (const CollectivePhase& phase : CollectivePhases(call, static_cast<int64_t>(members.size()))) {
      double round = 0;
      WEFT_RETURN_IF_ERROR(AddNodes(phase, form, members, round, latency));
      time += static_cast<double>(phase.rounds) * round;
      rounds += static_cast<double>(phase.rounds);
    }
    if (rounds == 0) return TransferTime{};
    return TransferTime{FromSeconds(time + (rounds - 1) * latency), FromSeconds(latency)};
  }

 private:
  int64_t Node(int64_t rank) const { return rank / devices_; }

  absl::Status CheckLink(bool crosses) const {
    if (!crosses) {
      if (cluster_.intra_node().bytes_per_second() > 0) return absl::OkStatus();
      return Missing("intra_node.bytes_per_second", "ranks of one node exchange data");
    }
    if (!(cluster_.inter_node().bytes_per_second() > 0)) {
      return Missing("inter_node.bytes_per_second", "ranks of different nodes exchange data");
    }
    if (cluster_.nics_per_node() <= 0) return Missing("nics_per_node", "ranks of different nodes exchange data");
    return absl::OkStatus();
  }

  // How many transfers between the node of `from` and other nodes are like the one from `from` to `to`: those of the
  // node's ranks that have the coordinates of `from` on all axes on which `to` differs. They do the same at the same
  // time, for other replicas.
  int64_t TransfersOut(int64_t from, int64_t to) const {
    const std::vector<int64_t> a = RankCoordinates(mesh_, from);
    const std::vector<int64_t> b = RankCoordinates(mesh_, to);
    int64_t count = 0;
    const int64_t first = Node(from) * devices_;
    const int64_t last = std::min(first + devices_, ranks_);
    for (int64_t rank = first; rank < last; ++rank) {
      std::vector<int64_t> coordinates = RankCoordinates(mesh_, rank);
      bool alike = true;
      for (size_t i = 0; i < a.size(); ++i) {
        if (a[i] == b[i]) continue;
        alike = alike && coordinates[i] == a[i];
        coordinates[i] = b[i];
      }
      if (alike && Node(CoordinatesRank(mesh_, coordinates)) != Node(rank)) ++count;
    }
    return std::max<int64_t>(count, 1);
  }

  // Raises `round` to the time of a round of `phase` on the slowest node, `latency` to that of the slowest link.
  absl::Status AddNodes(const CollectivePhase& phase, const GroupForm& form, absl::Span<const int64_t> members,
                        double& round, double& latency) const {
    for (size_t begin = 0; begin < members.size();) {
      size_t end = begin;
      while (end < members.size() && Node(members[end]) == Node(members[begin])) ++end;
      // `inside` members are on this node; the others are `outside`.
      const double inside = static_cast<double>(end - begin);
      const double outside = static_cast<double>(members.size()) - inside;
      double message_inside = 0;
      if (inside > 1) {
        WEFT_RETURN_IF_ERROR(CheckLink(/*crosses=*/false));
        const Link& link = cluster_.intra_node();
        latency = std::max(latency, link.latency_seconds());
        message_inside = link.overhead_seconds() + phase.bytes / link.bytes_per_second();
      }
      double message_out = 0;
      if (outside > 0) {
        WEFT_RETURN_IF_ERROR(CheckLink(/*crosses=*/true));
        latency = std::max(latency, cluster_.inter_node().latency_seconds());
        const double sharing = static_cast<double>(GroupsAcross(Node(members[begin]), form));
        const double bandwidth = std::min(inside * device_bandwidth_, node_bandwidth_ / sharing);
        // Of one message a round one member of the node sends it out, of several all members do at the same time.
        const double senders = phase.messages == 1 ? 1 : inside;
        message_out = cluster_.inter_node().overhead_seconds() + senders * phase.bytes / bandwidth;
      }
      round = phase.messages == 1 ? std::max({round, message_inside, message_out})
                                  : std::max(round, (inside - 1) * message_inside + outside * message_out);
      begin = end;
    }
    return absl::OkStatus();
  }

  // How many groups like this one have a member on `node` and one elsewhere: those of the ranks with other coordinates
  // on axes that the group does not list, and of other blocks.
  int64_t GroupsAcross(int64_t node, const GroupForm& form) const {
    std::set<int64_t> groups;
    const int64_t first = node * devices_;
    const int64_t last = std::min(first + devices_, ranks_);
    for (int64_t rank = first; rank < last; ++rank) {
      const std::vector<int64_t> own = RankCoordinates(mesh_, rank);
      if (!TakesPart(form, own)) continue;
      const int64_t lowest = CoordinatesRank(mesh_, LowestCoordinates(form, own));
      if (Node(lowest) != Node(CoordinatesRank(mesh_, HighestCoordinates(mesh_, form, own)))) groups.insert(lowest);
    }
    return std::max<int64_t>(static_cast<int64_t>(groups.size()), 1);
  }

  const Mesh& mesh_;
  const Cluster& cluster_;
  const int64_t ranks_;
  const int64_t devices_;
  // Of all NICs of a node, and the most that one device can use of it; bytes per second in each direction.
  const double node_bandwidth_;
  const double device_bandwidth_;
};

}  // namespace

std::unique_ptr<NetworkModel> MakeAnalyticNetwork(const Mesh& mesh, const Cluster& cluster) {
  return std::make_unique<AnalyticNetwork>(mesh, cluster);
}

}  // namespace weft
