#include "compiler/segments/collective_cost.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ir/interfaces.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/units.h"
#include "simulator/network/network_model.h"

namespace weft {

namespace {

sim::GroupForm FormOf(const Mesh& mesh, const Group& group) {
  sim::GroupForm form;
  for (const MeshAxis& axis : mesh.axes()) {
    sim::AxisPart& part = form.emplace_back();
    for (const AxisSubset& subset : group.axes()) {
      if (subset.axis() != axis.name()) continue;
      if (subset.block() > 0) {
        part = {sim::AxisPart::kBlock, subset.block(), {}};
      } else if (subset.stride() > 0) {
        part = {sim::AxisPart::kStride, subset.stride(), {}};
      } else if (!subset.indices().empty()) {
        part = {sim::AxisPart::kListed, 0, {subset.indices().begin(), subset.indices().end()}};
      } else {
        part.kind = sim::AxisPart::kAll;
      }
    }
  }
  return form;
}

absl::StatusOr<CollectiveKind> KindOf(const Step& step) {
  switch (step.kernel()) {
    case GROUP_ALL_REDUCE:
      return CollectiveKind::kAllReduce;
    case GROUP_ALL_GATHER:
      return CollectiveKind::kAllGather;
    case GROUP_REDUCE_SCATTER:
      return CollectiveKind::kReduceScatter;
    default:
      return absl::InternalError(
          absl::StrCat("step '", step.name(), "' of kernel ", Kernel_Name(step.kernel()), " is no collective"));
  }
}

// Bytes of the whole tensor: the input of a reduce-scatter, the output of an all-gather. Work counts these bytes and
// the bytes of one member's part.
int64_t WholeBytes(CollectiveKind kind, int64_t bytes, int64_t members) {
  if (kind == CollectiveKind::kAllReduce) return bytes / 2;
  return static_cast<int64_t>(static_cast<__int128>(bytes) * members / (members + 1));
}

class CollectiveCosts {
 public:
  CollectiveCosts(const Mesh& mesh, const Cluster& cluster) : mesh_(mesh), cluster_(cluster) {}

  absl::StatusOr<int64_t> Cost(const Step& step) {
    const Key key(step.kernel(), step.work().bytes(), step.work().dtype(), step.collective().SerializeAsString());
    if (const auto known = costs_.find(key); known != costs_.end()) return known->second;
    if (network_ == nullptr) {
      WEFT_ASSIGN_OR_RETURN(const sim::NetworkModelEntry* entry, sim::FindNetworkModel("analytic"));
      network_ = entry->make(mesh_, cluster_);
    }
    sim::CollectiveCall call;
    WEFT_ASSIGN_OR_RETURN(call.kind, KindOf(step));
    WEFT_ASSIGN_OR_RETURN(call.algorithm, FindCollective(step.collective().algorithm()));
    const sim::GroupForm form = FormOf(mesh_, step.collective().group());
    const std::vector<int64_t> members = sim::FormMembers(mesh_, LowestRank(form), form);
    const int64_t element = std::max<int64_t>(1, DTypeBytes(step.work().dtype()));
    call.parts.push_back(
        {WholeBytes(call.kind, step.work().bytes(), static_cast<int64_t>(members.size())) / element, element});
    WEFT_ASSIGN_OR_RETURN(const sim::TransferTime time, network_->Collective(call, form, members));
    return costs_[key] = ir::SaturatingAdd(time.occupancy.ps, time.latency.ps);
  }

 private:
  using Key = std::tuple<Kernel, int64_t, DType, std::string>;

  int64_t LowestRank(const sim::GroupForm& form) const {
    std::vector<int64_t> coordinates(form.size(), 0);
    return CoordinatesRank(mesh_, sim::LowestCoordinates(form, coordinates));
  }

  const Mesh& mesh_;
  const Cluster& cluster_;
  std::unique_ptr<sim::NetworkModel> network_;
  std::map<Key, int64_t> costs_;
};

}  // namespace

StepCost WithCollectives(StepCost compute, const Mesh& mesh, const Cluster& cluster) {
  auto collectives = std::make_shared<CollectiveCosts>(mesh, cluster);
  return [compute = std::move(compute), collectives](const Segment& segment, const Step& step,
                                                     ActionKind kind) -> absl::StatusOr<int64_t> {
    return step.stream() == COLLECTIVE ? collectives->Cost(step) : compute(segment, step, kind);
  };
}

}  // namespace weft
