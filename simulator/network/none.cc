// The "none" network: every transfer and every collective takes no time. Only the schedule and its compute remain.
#include "simulator/network/network_model.h"

namespace weft::sim {
namespace {

class NoNetwork : public NetworkModel {
 public:
  absl::StatusOr<TransferTime> Transfer(int64_t source, int64_t destination, int64_t bytes) const override {
    return TransferTime{};
  }
  absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm& form,
                                          absl::Span<const int64_t> members) const override {
    return TransferTime{};
  }
};

}  // namespace

std::unique_ptr<NetworkModel> MakeNoNetwork(const Mesh& mesh, const Cluster& cluster) {
  return std::make_unique<NoNetwork>();
}

}  // namespace weft::sim
