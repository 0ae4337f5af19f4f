// The "nccl" network: what NCCL takes on NVIDIA's devices. Every collective goes by the algorithm and protocol that
// NCCL chooses for its size and group (nccl_tuning.h), whatever the program names; NCCL believes that it has the
// interfaces of its nodes for itself, and the time is that of its choice with the bandwidth that the placement leaves
// (placed_links.h). Latencies are those of NCCL's model, and part of the occupancy of a collective; those of the
// cluster's links are not used. The buffers of one collective count as one.
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "proto/status.h"
#include "simulator/network/nccl_tuning.h"
#include "simulator/network/network_model.h"
#include "simulator/network/placed_links.h"

namespace weft {
namespace {

constexpr int kLeastCapability = 60;

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
    WEFT_RETURN_IF_ERROR(CheckFigures(!crosses));
    WEFT_ASSIGN_OR_RETURN(const double bandwidth, links_.TransferBandwidth(source, destination));
    const NcclMessage message = NcclSend(static_cast<double>(bytes), bandwidth, crosses, nvlink());
    return TransferTime{FromSeconds(message.seconds), FromSeconds(message.latency_seconds)};
  }

  absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm& form,
                                          absl::Span<const int64_t> members) const override {
    if (members.size() < 2) return TransferTime{};
    double bytes = 0;
    for (const CollectivePart& part : call.parts) {
      bytes += static_cast<double>(part.elements) * static_cast<double>(part.element_bytes);
    }
    WEFT_ASSIGN_OR_RETURN(const NcclGroup alone, Group(PlacedGroup(links_, nullptr, members)));
    WEFT_ASSIGN_OR_RETURN(const NcclGroup shared, Group(PlacedGroup(links_, &form, members)));
    const auto [algorithm, protocol] = NcclChoice(call.kind, bytes, alone);
    const std::optional<double> seconds = NcclSeconds(algorithm, protocol, call.kind, bytes, shared);
    if (!seconds.has_value()) return absl::InternalError("NCCL's choice is not possible");
    return TransferTime{FromSeconds(*seconds), Time{}};
  }

 private:
  bool nvlink() const { return links_.cluster().intra_node().kind() == NVLINK; }

  absl::Status CheckFigures(bool inside) const {
    if (compute_capability_ < kLeastCapability) {
      return absl::FailedPreconditionError(absl::StrCat("cluster.device.compute_capability = ", compute_capability_,
                                                        ", network 'nccl' needs at least ", kLeastCapability,
                                                        ", e.g. 80 of an A100; other devices: network 'analytic'"));
    }
    const LinkKind kind = links_.cluster().intra_node().kind();
    if (inside && kind != NVLINK && kind != PCIE) {
      return absl::FailedPreconditionError(
          absl::StrCat("cluster.intra_node.kind = ", LinkKind_Name(kind), ", network 'nccl' needs NVLINK or PCIE"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<NcclGroup> Group(const PlacedGroup& placed) const {
    NcclGroup group = {.ranks = placed.size(),
                       .nodes = placed.nodes(),
                       .compute_capability = compute_capability_,
                       .nvlink = nvlink(),
                       .switch_reduces = links_.cluster().node_links().switch_reduces()};
    WEFT_RETURN_IF_ERROR(CheckFigures(group.nodes < group.ranks));
    const auto lower = [](double& bandwidth, double other) {
      bandwidth = bandwidth == 0 ? other : std::min(bandwidth, other);
    };
    // By node, the last member so far: a ring passes from each to the next.
    std::vector<int64_t> last(group.nodes, -1);
    for (int64_t member = 0; member < group.ranks; ++member) {
      int64_t& before = last[placed.NodeOf(member)];
      if (before >= 0) {
        WEFT_ASSIGN_OR_RETURN(const MessagePath path, placed.Between(before, member));
        lower(group.inside_bytes_per_second, path.bytes_per_second);
      }
      before = member;
    }
    for (int64_t node = 0; group.nodes > 1 && node < group.nodes; ++node) {
      WEFT_ASSIGN_OR_RETURN(const double bandwidth, placed.NodeBandwidth(static_cast<int32_t>(node)));
      lower(group.outside_bytes_per_second, bandwidth);
    }
    return group;
  }

  PlacedLinks links_;
  // The least of all devices: NCCL goes by that.
  int compute_capability_;
};

}  // namespace

std::unique_ptr<NetworkModel> MakeNcclNetwork(const Mesh& mesh, const Cluster& cluster) {
  return std::make_unique<NcclNetwork>(mesh, cluster);
}

}  // namespace weft
