#include "simulator/network/placed_links.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "proto/mesh.h"
#include "proto/status.h"

namespace weft {
namespace {

absl::Status Missing(absl::string_view field, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("cluster.", field, " must be positive: ", why));
}

}  // namespace

PlacedLinks::PlacedLinks(const Mesh& mesh, const Cluster& cluster)
    : mesh_(mesh),
      cluster_(cluster),
      ranks_(MeshRanks(mesh)),
      devices_(std::max<int64_t>(cluster.devices_per_node(), 1)),
      node_bandwidth_(static_cast<double>(cluster.nics_per_node()) * cluster.inter_node().bytes_per_second()),
      device_bandwidth_(std::max(cluster.inter_node().bytes_per_second(), node_bandwidth_ / devices_)) {}

absl::Status PlacedLinks::CheckLink(bool crosses) const {
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

absl::StatusOr<MessagePath> PlacedLinks::Path(int64_t source, int64_t destination) const {
  const bool crosses = Node(source) != Node(destination);
  WEFT_RETURN_IF_ERROR(CheckLink(crosses));
  const Link& link = crosses ? cluster_.inter_node() : cluster_.intra_node();
  return MessagePath{link.overhead_seconds(), link.latency_seconds(),
                     crosses ? device_bandwidth_ : link.bytes_per_second()};
}

absl::StatusOr<double> PlacedLinks::TransferBandwidth(int64_t source, int64_t destination) const {
  WEFT_ASSIGN_OR_RETURN(const MessagePath path, Path(source, destination));
  if (Node(source) == Node(destination)) return path.bytes_per_second;
  const int64_t sharing = std::max(TransfersOut(source, destination), TransfersOut(destination, source));
  return std::min(device_bandwidth_, node_bandwidth_ / static_cast<double>(sharing));
}

absl::StatusOr<double> PlacedLinks::NodeBandwidth(int64_t rank, int64_t inside, const GroupForm* form) const {
  WEFT_RETURN_IF_ERROR(CheckLink(/*crosses=*/true));
  const int64_t sharing = form == nullptr ? 1 : GroupsAcross(Node(rank), *form);
  return std::min(static_cast<double>(inside) * device_bandwidth_, node_bandwidth_ / static_cast<double>(sharing));
}

// How many transfers between the node of `from` and other nodes are like the one from `from` to `to`: those of the
// node's ranks that have the coordinates of `from` on all axes on which `to` differs. They do the same at the same
// time, for other replicas.
int64_t PlacedLinks::TransfersOut(int64_t from, int64_t to) const {
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

// How many groups like this one have a member on `node` and one elsewhere: those of the ranks with other coordinates
// on axes that the group does not list, and of other blocks.
int64_t PlacedLinks::GroupsAcross(int64_t node, const GroupForm& form) const {
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

PlacedGroup::PlacedGroup(const PlacedLinks& links, const GroupForm* form, absl::Span<const int64_t> members)
    : links_(links), form_(form), members_(members) {
  std::map<int64_t, int32_t> known;
  for (const int64_t member : members) {
    const auto [node, is_new] = known.emplace(links.Node(member), static_cast<int32_t>(known.size()));
    if (is_new) {
      firsts_.push_back(member);
      counts_.push_back(0);
    }
    nodes_.push_back(node->second);
    ++counts_[node->second];
  }
}

absl::StatusOr<MessagePath> PlacedGroup::Between(int64_t source, int64_t destination) const {
  return links_.Path(members_[source], members_[destination]);
}

absl::StatusOr<double> PlacedGroup::NodeBandwidth(int32_t node) const {
  return links_.NodeBandwidth(firsts_[node], counts_[node], form_);
}

absl::StatusOr<double> PlacedGroup::Latency() const {
  double latency = 0;
  if (nodes() > 1) {
    WEFT_ASSIGN_OR_RETURN(const MessagePath path, links_.Path(firsts_[0], firsts_[1]));
    latency = path.latency_seconds;
  }
  if (*std::max_element(counts_.begin(), counts_.end()) > 1) {
    for (size_t member = 1; member < members_.size(); ++member) {
      const int64_t first = firsts_[nodes_[member]];
      if (first == members_[member]) continue;
      WEFT_ASSIGN_OR_RETURN(const MessagePath path, links_.Path(first, members_[member]));
      latency = std::max(latency, path.latency_seconds);
      break;
    }
  }
  return latency;
}

}  // namespace weft
