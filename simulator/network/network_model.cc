#include "simulator/network/network_model.h"

namespace weft::sim {

absl::StatusOr<Flow> NetworkModel::TransferFlow(int64_t, int64_t, int64_t) const {
  return absl::UnimplementedError("this network shares no links");
}

absl::StatusOr<Flow> NetworkModel::CollectiveFlow(const CollectiveCall&, const GroupForm&,
                                                  absl::Span<const int64_t>) const {
  return absl::UnimplementedError("this network shares no links");
}

}  // namespace weft::sim
