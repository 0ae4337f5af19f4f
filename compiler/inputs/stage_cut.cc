#include "compiler/inputs/stage_cut.h"

#include <algorithm>
#include <map>
#include <string>

#include "compiler/inputs/plan_schedule.h"
#include "proto/util/mesh.h"

namespace weft {
namespace {

// Number of parameters that each layer uses in products. Grouped keys and values count as if every head had its own.
std::vector<double> ProductWeights(const ModelGraph& model) {
  std::map<std::string, double> elements;
  for (const GraphParameter& parameter : model.parameters()) {
    double& size = elements[parameter.name()] = 1;
    for (const int64_t extent : parameter.shape()) size *= static_cast<double>(extent);
  }
  std::vector<double> weights;
  // Maps a value to the size and the layer of the product that made it, directly or through rotary positions.
  std::map<std::string, std::pair<double, size_t>> products;
  for (const GraphOp& op : model.ops()) {
    weights.resize(std::max(weights.size(), static_cast<size_t>(op.layer()) + 1));
    const auto layer = static_cast<size_t>(op.layer());
    if (op.kind() == "matmul" && op.inputs_size() > 1 && op.outputs_size() > 0) {
      const auto weight = elements.find(op.inputs(1));
      if (weight == elements.end()) continue;
      weights[layer] += weight->second;
      products[op.outputs(0)] = {weight->second, layer};
    } else if (op.kind() == "rope" && op.inputs_size() > 0 && op.outputs_size() > 0) {
      const auto made = products.find(op.inputs(0));
      if (made != products.end()) products[op.outputs(0)] = made->second;
    } else if (op.kind() == "attention" && op.inputs_size() == 3 && op.attributes().kv_heads() > 0) {
      const double shared =
          static_cast<double>(op.attributes().heads()) / static_cast<double>(op.attributes().kv_heads());
      for (const int input : {1, 2}) {
        const auto made = products.find(op.inputs(input));
        if (made != products.end()) weights[made->second.second] += made->second.first * (shared - 1);
      }
    }
  }
  return weights;
}

// True if stage s is on rank (s modulo number of ranks), in a single lane.
bool GoesRound(const PipelineSchedule& schedule, int64_t ranks) {
  if (schedule.lanes != 1 || schedule.placement.size() != 1) return false;
  const std::vector<int>& placed = schedule.placement[0];
  for (size_t stage = 0; stage < placed.size(); ++stage) {
    if (placed[stage] != static_cast<int64_t>(stage) % ranks) return false;
  }
  return true;
}

}  // namespace

std::vector<int32_t> LayersPerStage(int64_t blocks, int64_t stages) {
  std::vector<int32_t> layers(static_cast<size_t>(stages));
  if ((blocks + 2) % stages == 0 && blocks % stages != 0) {
    std::fill(layers.begin(), layers.end(), static_cast<int32_t>((blocks + 2) / stages));
    return layers;
  }
  for (int64_t i = 0; i < stages; ++i) {
    const bool more = i > 0 && i <= blocks % stages;
    layers[static_cast<size_t>(i)] = static_cast<int32_t>(blocks / stages + (more ? 1 : 0));
  }
  ++layers.front();
  ++layers.back();
  return layers;
}

std::vector<int32_t> LayersByWeights(const ModelGraph& model, int64_t stages) {
  const std::vector<double> weights = ProductWeights(model);
  if (stages < 1 || static_cast<int64_t>(weights.size()) < stages) return {};
  double all = 0;
  for (const double weight : weights) all += weight;
  const double share = all / static_cast<double>(stages);
  std::vector<int32_t> layers(static_cast<size_t>(stages));
  size_t stage = 0;
  double before = 0;
  for (const double weight : weights) {
    ++layers[stage];
    before += weight;
    if (before > share * static_cast<double>(stage + 1) && stage + 1 < layers.size()) ++stage;
  }
  if (std::find(layers.begin(), layers.end(), 0) != layers.end()) return {};
  return layers;
}

std::vector<int32_t> StageCutOf(const Runtime& runtime, const ModelGraph& model, const Recipe& recipe,
                                const Plan& plan) {
  if (runtime.stage_cut() == Runtime::BY_COST || plan.partition().layers_per_stage_size() > 0) return {};
  const int64_t ranks = AxisSize(plan.mesh(), "pipe");
  constexpr int64_t kMax = int64_t{1} << 20;
  // If the recipe does not state a microbatch, it has one sequence.
  const int64_t samples = recipe.microbatch_sequences() == 0 ? 1 : recipe.microbatch_sequences();
  const int64_t replicas = AxisSize(plan.mesh(), "data");
  if (ranks < 1 || ranks > kMax || replicas < 1 || replicas > kMax || samples < 1 || samples > kMax ||
      model.ops_size() == 0) {
    return {};
  }
  const int64_t microbatches = recipe.global_batch_sequences() / samples / replicas;
  // All lists of slots together have a length proportional to the product of ranks and microbatches, so this limits
  // their size.
  if (microbatches < 1 || microbatches > kMax / ranks) return {};
  PlanSchedule schedule = plan.schedule();
  if (schedule.name().empty() && schedule.definition().empty()) schedule.set_name("1f1b");
  const auto built = ScheduleOf(ChoiceOf(schedule, static_cast<int>(ranks), static_cast<int>(microbatches), {}));
  if (!built.ok() || !GoesRound(*built, ranks)) return {};
  const int64_t layers = model.ops(model.ops_size() - 1).layer() + 1;
  if (built->stages > layers || layers < 3) return {};
  return runtime.stage_cut() == Runtime::BY_BLOCKS ? LayersPerStage(layers - 2, built->stages)
                                                   : LayersByWeights(model, built->stages);
}

std::vector<int32_t> CutStagesAs(const Runtime& runtime, const ModelGraph& model, const Recipe& recipe, Plan* plan) {
  std::vector<int32_t> cut = StageCutOf(runtime, model, recipe, *plan);
  if (!cut.empty()) plan->mutable_partition()->mutable_layers_per_stage()->Assign(cut.begin(), cut.end());
  return cut;
}

}  // namespace weft
