#include "compiler/mixed_cut.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "compiler/lower_program.h"
#include "compiler/segments/collective_cost.h"
#include "compiler/segments/state_shards.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/units.h"
#include "simulator/cost/cost_model.h"
#include "simulator/network/placement.h"

namespace weft {
namespace {

// Bytes on each rank for each parameter of the model.
double StateBytesPerParameter(const PlanInputs& inputs) {
  const Plan& plan = inputs.plan;
  const Precision& precision = plan.precision();
  const StateShards shards = StateShardsOf(plan);
  const auto share = [&](int stage, int64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(shards.stage >= stage ? shards.members : 1);
  };
  int64_t optimizer = 0;
  if (!plan.offload().optimizer()) {
    if (precision.master() != precision.params()) optimizer += DTypeBytes(precision.master());
    if (inputs.recipe.has_adamw()) optimizer += 2 * DTypeBytes(precision.moments());
  }
  const int64_t gradients = DTypeBytes(plan.accumulation() == EXACT ? EXACT192 : precision.grads());
  double holders = 1;
  for (const char* axis : {"x", "y", "z"}) holders *= static_cast<double>(AxisSize(plan.mesh(), axis));
  return (share(3, DTypeBytes(precision.params())) + share(2, gradients) + share(1, optimizer)) / holders;
}

// How many parameters layers have.
class LayerParameters {
 public:
  explicit LayerParameters(const ModelGraph& model) {
    std::map<std::string, std::set<int64_t>> users;
    int64_t layers = 0;
    for (const GraphOp& op : model.ops()) {
      layers = std::max<int64_t>(layers, op.layer() + 1);
      for (const std::string& input : op.inputs()) users[input].insert(op.layer());
    }
    before_.resize(layers + 1);
    for (const GraphParameter& parameter : model.parameters()) {
      const auto found = users.find(parameter.name());
      if (found == users.end()) continue;
      double elements = 1;
      for (const int64_t extent : parameter.shape()) elements *= static_cast<double>(extent);
      if (found->second.size() == 1) {
        before_[*found->second.begin() + 1] += elements;
      } else {
        shared_.emplace_back(elements, std::move(found->second));
      }
    }
    for (int64_t layer = 0; layer < layers; ++layer) before_[layer + 1] += before_[layer];
  }

  // Returns the number of parameters of layers from, …, to - 1 together. Shared parameters count once.
  double CountOf(int64_t from, int64_t to) const {
    double count = before_[to] - before_[from];
    for (const auto& [elements, layers] : shared_) {
      const auto user = layers.lower_bound(from);
      if (user != layers.end() && *user < to) count += elements;
    }
    return count;
  }

 private:
  // before_[i]: parameters of the layers before i that no other layer uses.
  std::vector<double> before_;
  std::vector<std::pair<double, std::set<int64_t>>> shared_;
};

}  // namespace

absl::StatusOr<RankKinds> MixedKindsOf(const PlanInputs& inputs) {
  if (inputs.cluster.other_devices_size() == 0) return RankKinds();
  WEFT_ASSIGN_OR_RETURN(RankKinds kinds, KindsOfRanks(MeshRanks(inputs.plan.mesh()), inputs.cluster));
  return kinds.AllAreLike(inputs.cluster.device()) ? RankKinds() : std::move(kinds);
}

absl::StatusOr<std::vector<StepCost>> CostsOnKinds(const PlanInputs& inputs, const RankKinds& kinds) {
  // Refuses models that know no devices.
  WEFT_RETURN_IF_ERROR(CostsOf(inputs).status());
  WEFT_ASSIGN_OR_RETURN(const sim::CostModelEntry* model, sim::FindCostModel(inputs.cost));
  std::vector<StepCost> costs;
  for (const DeviceKind& kind : kinds.kinds) {
    auto cluster = std::make_shared<Cluster>();
    *cluster->mutable_device() = kind.device;
    *cluster->mutable_host() = inputs.cluster.host();
    const double slowdown = static_cast<double>(sim::kFullSpeed) / static_cast<double>(kind.speed);
    auto compute = [model, cluster, slowdown](const Segment& segment, const Step& step,
                                              ActionKind action) -> absl::StatusOr<int64_t> {
      WEFT_ASSIGN_OR_RETURN(const Time time, model->cost(step, sim::ShapesOf(segment, step), action, 0, *cluster, {}));
      return static_cast<int64_t>(std::ceil(static_cast<double>(time.ps) * slowdown));
    };
    costs.push_back(WithCollectives(compute, inputs.plan.mesh(), inputs.cluster));
  }
  return costs;
}

absl::StatusOr<std::vector<int32_t>> CutOverKinds(const PlanInputs& inputs, const ModelGraph& model,
                                                  const RankKinds& kinds, std::vector<KindCosts> costs) {
  const std::vector<std::vector<int32_t>> pipelines = KindsOfPipelines(kinds, inputs.plan.mesh());
  const std::vector<std::vector<int>>& placement = inputs.schedule.placement;
  MixedStages mixed{.kinds = std::move(costs), .kinds_of_stage = KindsOfStages(pipelines, placement)};
  const LayerParameters parameters(model);
  const std::vector<int64_t> room = RoomOfStages(UsableOfPipeRanks(kinds, pipelines), placement);
  const double bytes = StateBytesPerParameter(inputs);
  if (kinds.kinds.size() > 1) {
    mixed.holds = [&](int32_t stage, int64_t from, int64_t to) {
      return bytes * parameters.CountOf(from, to) <= static_cast<double>(room[stage]);
    };
  }
  return MixedPartition(mixed);
}

absl::StatusOr<std::vector<int32_t>> MeasureAndCutOverKinds(const PlanInputs& inputs) {
  if (inputs.plan.partition().layers_per_stage_size() > 0 || inputs.schedule.stages < 2) return std::vector<int32_t>();
  WEFT_ASSIGN_OR_RETURN(const RankKinds kinds, MixedKindsOf(inputs));
  if (kinds.kinds.empty()) return std::vector<int32_t>();
  WEFT_ASSIGN_OR_RETURN(const std::vector<StepCost> costs, CostsOnKinds(inputs, kinds));
  std::vector<KindCosts> measured;
  for (const StepCost& cost : costs) {
    WEFT_ASSIGN_OR_RETURN(MeasuredLayers layers, MeasureLayersOf(inputs, cost));
    measured.push_back({std::move(layers.layers), std::move(layers.recompute)});
  }
  return CutOverKinds(inputs, inputs.model, kinds, std::move(measured));
}

}  // namespace weft
