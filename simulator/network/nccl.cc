// The "nccl" network: the times of NCCL on NVIDIA's devices. Every collective uses the algorithm and protocol that NCCL
// chooses for its size and group (nccl_tuning.h), whatever algorithm the program names. NCCL chooses as if no other
// group used the interfaces of its nodes. The time of its choice is then calculated with the bandwidth that the
// placement and the other groups leave (placed_links.h). Latencies come from NCCL's model, not from the cluster's
// links, and are part of a collective's occupancy. All buffers of one collective count as one buffer.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"
#include "simulator/network/nccl_node.h"
#include "simulator/network/nccl_tuning.h"
#include "simulator/network/network_model.h"
#include "simulator/network/placed_links.h"

namespace weft::sim {
namespace {

constexpr int kMinCapability = 60;

class NcclNetwork : public NetworkModel {
 public:
  NcclNetwork(const Mesh& mesh, const Cluster& cluster)
      : links_(mesh, cluster), compute_capability_(cluster.device().compute_capability()) {
    for (const OtherDevices& other : cluster.other_devices()) {
      if (!other.has_device()) continue;
      compute_capability_ = std::min(compute_capability_, other.device().compute_capability());
    }
  }

  absl::StatusOr<TransferTime> Transfer(int64_t source, int64_t destination, int64_t bytes) const override {
    const bool crosses = links_.Node(source) != links_.Node(destination);
    WEFT_RETURN_IF_ERROR(CheckCapability());
    WEFT_ASSIGN_OR_RETURN(const MessagePath path, links_.SharedPath(source, destination));
    LinkKind kind = LINK_KIND_UNSPECIFIED;
    if (!crosses) {
      const Link* pair = PairLink(cluster(), links_.DeviceInNode(source), links_.DeviceInNode(destination));
      kind = (pair != nullptr ? *pair : cluster().intra_node()).kind();
      WEFT_RETURN_IF_ERROR(CheckKind(kind));
    }
    const NcclMessage message = NcclSend(static_cast<double>(bytes), path.bytes_per_second, crosses, kind == NVLINK);
    return TransferTime{FromSeconds(message.seconds), FromSeconds(message.latency_seconds)};
  }

  absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm& form,
                                          absl::Span<const int64_t> members) const override {
    if (members.size() < 2) return TransferTime{};
    // Returns an error if the ranks cannot be placed.
    WEFT_RETURN_IF_ERROR(links_.Path(members[0], members[1]).status());
    // NCCL chooses the algorithm itself, but the program must not name one that is impossible here.
    if (call.algorithm != nullptr && call.algorithm->in_switch()) {
      WEFT_RETURN_IF_ERROR(PlacedGroup(links_, nullptr, members).Switches().status());
    }
    double bytes = 0;
    for (const CollectivePart& part : call.parts) {
      bytes += static_cast<double>(part.elements) * static_cast<double>(part.element_bytes);
    }
    // Thousands of groups have only a few different shapes, so times are cached by shape.
    const std::tuple key(links_.ShapeOf(form, members), call.kind, bytes);
    if (const auto known = times_.find(key); known != times_.end()) return known->second;
    const PlacedGroup by_itself(links_, nullptr, members), beside_others(links_, &form, members);
    WEFT_ASSIGN_OR_RETURN(const NcclGroup alone, Group(by_itself, members, /*shared=*/false));
    WEFT_ASSIGN_OR_RETURN(const NcclGroup shared, Group(beside_others, members, /*shared=*/true));
    const auto [algorithm, protocol] = NcclChoice(call.kind, bytes, alone);
    const std::optional<double> seconds = NcclSeconds(algorithm, protocol, call.kind, bytes, shared);
    if (!seconds.has_value()) return absl::InternalError("NCCL's choice is not possible");
    return times_[key] = TransferTime{FromSeconds(*seconds), Time{}};
  }

 private:
  const Cluster& cluster() const { return links_.cluster(); }

  absl::Status CheckCapability() const {
    if (compute_capability_ >= kMinCapability) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("cluster.device.compute_capability = ", compute_capability_,
                                                      ", but network 'nccl' needs at least ", kMinCapability,
                                                      " (an A100 has 80); for other devices, use --network=analytic"));
  }

  static absl::Status CheckKind(LinkKind kind) {
    if (kind == NVLINK || kind == PCIE) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("cluster.intra_node.kind (or that of a link in node_links.direct) = ", LinkKind_Name(kind),
                     ", but network 'nccl' needs NVLINK or PCIE"));
  }

  // If `shared`, bandwidths are reduced by the traffic of other groups and by the fabric.
  absl::StatusOr<NcclGroup> Group(const PlacedGroup& placed, absl::Span<const int64_t> members, bool shared) const {
    NcclGroup group = {.ranks = placed.size(),
                       .nodes = placed.nodes(),
                       .compute_capability = compute_capability_,
                       .nvlink = true,
                       .switch_reduces = cluster().node_links().switch_reduces(),
                       .fabric_reduces = false};
    WEFT_RETURN_IF_ERROR(CheckCapability());
    const auto lower = [](double& bandwidth, double other) {
      bandwidth = bandwidth == 0 ? other : std::min(bandwidth, other);
    };
    // Members by node, as indices in `members`.
    std::vector<std::vector<int64_t>> nodes(group.nodes);
    for (int64_t member = 0; member < group.ranks; ++member) nodes[placed.NodeOf(member)].push_back(member);
    const bool alike = std::all_of(nodes.begin(), nodes.end(),
                                   [&](const auto& inside) { return inside.size() == nodes.front().size(); });
    group.fabric_reduces = alike && FabricReduces(placed, members);
    for (const std::vector<int64_t>& inside : nodes) {
      if (inside.size() < 2) continue;
      WEFT_ASSIGN_OR_RETURN(const PairRings rings, Inside(placed, members, inside));
      WEFT_RETURN_IF_ERROR(CheckKind(rings.kind));
      if (!(rings.bytes_per_second > 0)) {
        return absl::FailedPreconditionError(
            "cluster.node_links: links must have positive bytes_per_second: ranks of one node exchange data");
      }
      group.nvlink = group.nvlink && rings.kind == NVLINK;
      lower(group.inside_bytes_per_second, rings.bytes_per_second);
    }
    for (int64_t node = 0; group.nodes > 1 && node < group.nodes; ++node) {
      WEFT_ASSIGN_OR_RETURN(const double bandwidth, placed.NodeBandwidth(static_cast<int32_t>(node)));
      lower(group.outside_bytes_per_second, bandwidth);
      if (!shared || placed.places() < 2) continue;
      WEFT_ASSIGN_OR_RETURN(const double above, placed.PlaceBandwidth(placed.PlaceOf(static_cast<int32_t>(node))));
      lower(group.outside_bytes_per_second, above);
    }
    return group;
  }

  // True if the switches between the nodes sum for the group, which must have equally many members on each node.
  bool FabricReduces(const PlacedGroup& placed, absl::Span<const int64_t> members) const {
    if (cluster().fabric().reduces() == NO_SWITCHES || placed.nodes() < 2) return false;
    // The check needs only one member of each node: NCCL itself chooses what to sum inside a node.
    std::vector<int64_t> nodes;
    for (const int64_t member : members) nodes.push_back(links_.Node(member));
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return SwitchWayOf(cluster(), nodes).ok();
  }

  // Returns the rings over the members in `inside`, which are on one node. `inside` has indices in `members`.
  absl::StatusOr<PairRings> Inside(const PlacedGroup& placed, absl::Span<const int64_t> members,
                                   absl::Span<const int64_t> inside) const {
    std::vector<int64_t> devices;
    for (const int64_t member : inside) devices.push_back(links_.DeviceInNode(members[member]));
    if (const std::optional<PairRings> rings = FindPairRings(cluster(), devices)) return *rings;
    // The ring goes from each member to the next through the node.
    PairRings ring = {.bytes_per_second = 0, .kind = cluster().intra_node().kind()};
    for (size_t i = 1; i < inside.size(); ++i) {
      WEFT_ASSIGN_OR_RETURN(const MessagePath path, placed.Between(inside[i - 1], inside[i]));
      ring.bytes_per_second = i == 1 ? path.bytes_per_second : std::min(ring.bytes_per_second, path.bytes_per_second);
    }
    return ring;
  }

  PlacedLinks links_;
  // The lowest compute capability of all devices, because NCCL uses the lowest one.
  int compute_capability_;
  // Times by shape of the group, kind and bytes.
  mutable std::map<std::tuple<int64_t, CollectiveKind, double>, TransferTime> times_;
};

}  // namespace

std::unique_ptr<NetworkModel> MakeNcclNetwork(const Mesh& mesh, const Cluster& cluster) {
  return std::make_unique<NcclNetwork>(mesh, cluster);
}

}  // namespace weft::sim
