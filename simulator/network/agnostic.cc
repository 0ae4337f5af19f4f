// The "agnostic" network: the placement-agnostic model of the AxoNN-4D paper, a baseline for the placement-aware one
// ("analytic"). Wherever the members are, every collective and every transfer has one constant bandwidth: the sum of
// the bandwidths of a node's interfaces. Latency and overhead are the figures of `inter_node`. On a single node the
// network uses the figures of `intra_node`. With rings these are Eq. 1 to 3 of the paper. Source: Singh et al., "A 4D
// hybrid algorithm to scale parallel training to thousands of GPUs", arXiv:2305.13525,
//         sec. V-A and V-C ("setting all bandwidths to a constant value").
#include <memory>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"
#include "simulator/network/collective_cost.h"
#include "simulator/network/network_model.h"
#include "simulator/network/switch_reduces.h"

namespace weft::sim {
namespace {

// Paths that are the same between all members, as if each member were on its own node.
class AnyGroup : public GroupPaths {
 public:
  AnyGroup(int64_t size, const MessagePath& path, const Cluster& cluster)
      : size_(size), path_(path), cluster_(cluster) {}

  int64_t size() const override { return size_; }
  int32_t NodeOf(int64_t member) const override { return static_cast<int32_t>(member); }
  absl::StatusOr<MessagePath> Between(int64_t, int64_t) const override { return path_; }
  absl::StatusOr<double> NodeBandwidth(int32_t) const override { return path_.bytes_per_second; }
  absl::StatusOr<SwitchWay> Switches() const override {
    WEFT_RETURN_IF_ERROR(CheckNodeSwitchReduces(cluster_));
    // This network ignores nodes. It is certain that all members share a node only if the cluster has just one.
    if (cluster_.nodes() <= 1) return SwitchWay{.nodes = 1, .on_node = size_};
    return absl::FailedPreconditionError(
        absl::StrCat("collective 'switch' with cluster.nodes = ", cluster_.nodes(),
                     ": the switch of each node sums, but network 'agnostic' does not know which ranks share a node; "
                     "nearest valid: --network=analytic, which does, or collective 'ring'"));
  }
  absl::StatusOr<double> Latency() const override { return path_.latency_seconds; }

 private:
  int64_t size_;
  MessagePath path_;
  const Cluster& cluster_;
};

class AgnosticNetwork : public NetworkModel {
 public:
  AgnosticNetwork(const Mesh&, const Cluster& cluster) : cluster_(cluster) {}

  absl::StatusOr<TransferTime> Transfer(int64_t, int64_t, int64_t bytes) const override {
    WEFT_ASSIGN_OR_RETURN(const MessagePath path, Path());
    return TransferTime{FromSeconds(path.overhead_seconds + static_cast<double>(bytes) / path.bytes_per_second),
                        FromSeconds(path.latency_seconds)};
  }

  absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm&,
                                          absl::Span<const int64_t> members) const override {
    if (members.size() < 2) return TransferTime{};
    WEFT_ASSIGN_OR_RETURN(const MessagePath path, Path());
    const int64_t size = static_cast<int64_t>(members.size());
    return RoundsTime(CollectivePhases(call, size), AnyGroup(size, path, cluster_));
  }

 private:
  absl::StatusOr<MessagePath> Path() const {
    const bool one_node = cluster_.nodes() <= 1;
    const Link& link = one_node ? cluster_.intra_node() : cluster_.inter_node();
    const double links = one_node ? 1 : static_cast<double>(cluster_.nics_per_node());
    if (!(link.bytes_per_second() > 0) || !(links > 0)) {
      const absl::string_view field = one_node    ? "intra_node.bytes_per_second"
                                      : links > 0 ? "inter_node.bytes_per_second"
                                                  : "nics_per_node";
      return absl::FailedPreconditionError(
          absl::StrCat("cluster.", field, " must be positive: network 'agnostic' uses it for all ranks"));
    }
    return MessagePath{link.overhead_seconds(), link.latency_seconds(), links * link.bytes_per_second()};
  }

  const Cluster& cluster_;
};

}  // namespace

std::unique_ptr<NetworkModel> MakeAgnosticNetwork(const Mesh& mesh, const Cluster& cluster) {
  return std::make_unique<AgnosticNetwork>(mesh, cluster);
}

}  // namespace weft::sim
