// The "analytic" network: closed forms of overhead, bandwidth and latency. B is the bandwidth that the placement leaves
// (placed_links.h).
//
// Transfer of S bytes:      occupancy = overhead + S / B
// Collective:               occupancy = sum of (round + latency) over all rounds - latency
//
// Both finish one latency after the end of the occupancy. The rounds of a collective are those of its algorithm's plan.
// They run in lock step, and each takes as long as its slowest member (collective_cost.h). A ring of n members over S
// bytes finishes after (n-1) (overhead + latency) + (n-1)/n S / B for an all-gather or a reduce-scatter, and after
// twice that time for an all-reduce. These are the bandwidth-optimal forms of Thakur et al. 2005, Eq. 1 to 3 of the
// AxoNN-4D paper. Sources: Singh et al., "A 4D hybrid algorithm to scale parallel training to thousands of GPUs",
// arXiv:2305.13525,
//          Eq. 1-3 and 10. Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH",
//          IJHPCA 19(1), 2005, sec. 4.
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "proto/util/status.h"
#include "simulator/network/collective_cost.h"
#include "simulator/network/network_model.h"
#include "simulator/network/placed_links.h"

namespace weft::sim {
namespace {

class AnalyticNetwork : public NetworkModel {
 public:
  AnalyticNetwork(const Mesh& mesh, const Cluster& cluster) : links_(mesh, cluster) {}

  absl::StatusOr<TransferTime> Transfer(int64_t source, int64_t destination, int64_t bytes) const override {
    WEFT_ASSIGN_OR_RETURN(const MessagePath path, links_.SharedPath(source, destination));
    return TransferTime{FromSeconds(path.overhead_seconds + static_cast<double>(bytes) / path.bytes_per_second),
                        FromSeconds(path.latency_seconds)};
  }

  absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm& form,
                                          absl::Span<const int64_t> members) const override {
    if (members.size() < 2) return TransferTime{};
    // Thousands of groups have only a few different shapes, so times are cached by shape.
    std::vector<int64_t> key = {links_.ShapeOf(form, members), static_cast<int64_t>(call.kind),
                                call.algorithm - Collectives().data()};
    for (const CollectivePart& part : call.parts) {
      key.insert(key.end(), {part.elements, part.element_bytes, part.one_by_one});
    }
    const auto known = times_.find(key);
    if (known != times_.end()) return known->second;
    WEFT_ASSIGN_OR_RETURN(
        const TransferTime time,
        RoundsTime(CollectivePhases(call, static_cast<int64_t>(members.size())), PlacedGroup(links_, &form, members)));
    times_.emplace(std::move(key), time);
    return time;
  }

 private:
  PlacedLinks links_;
  // Times by the shape of the group and by the collective's kind, algorithm and buffers.
  mutable absl::flat_hash_map<std::vector<int64_t>, TransferTime> times_;
};

}  // namespace

std::unique_ptr<NetworkModel> MakeAnalyticNetwork(const Mesh& mesh, const Cluster& cluster) {
  return std::make_unique<AnalyticNetwork>(mesh, cluster);
}

}  // namespace weft::sim
