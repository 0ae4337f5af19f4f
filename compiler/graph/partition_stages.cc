#include <algorithm>
#include <numeric>

#include "compiler/graph/balanced_partition.h"
#include "compiler/passes/passes.h"
#include "compiler/segments/cost_of_ops.h"

namespace weft {

#define GEN_PASS_DEF_PARTITIONSTAGES
#include "compiler/passes/passes.h.inc"

namespace {

struct PartitionStagesPass : impl::PartitionStagesBase<PartitionStagesPass> {
  using PartitionStagesBase::PartitionStagesBase;

  void runOnOperation() override {
    for (ir::GraphOp graph : getOperation().getOps<ir::GraphOp>()) {
      if (mlir::failed(Partition(graph))) return signalPassFailure();
    }
  }

  mlir::LogicalResult Partition(ir::GraphOp graph);
  mlir::FailureOr<std::vector<int32_t>> LayersPerStage(ir::GraphOp graph, int64_t layers);
};

std::string Text(absl::Status status) { return std::string(status.message().data(), status.message().size()); }

mlir::FailureOr<std::vector<int32_t>> PartitionStagesPass::LayersPerStage(ir::GraphOp graph, int64_t layers) {
  if (!layersPerStage.empty()) {
    std::vector<int32_t> counts(layersPerStage.begin(), layersPerStage.end());
    bool positive = std::all_of(counts.begin(), counts.end(), [](int32_t count) { return count > 0; });
    int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    if (!positive || sum != layers || static_cast<int64_t>(counts.size()) != stages) {
      graph.emitOpError() << "[partition_stages_c1] plan.partition.layers_per_stage has " << counts.size()
                          << " stages with " << sum << " layers in all; needed: " << stages.getValue()
                          << " stages of at least one layer each, with " << layers << " layers in all";
      return mlir::failure();
    }
    return counts;
  }
  std::vector<int64_t> costs(layerCosts.begin(), layerCosts.end());
  if (costs.empty()) {
    absl::StatusOr<GraphCosts> nominal = CostsOfGraph(graph, NominalStepCost);
    if (!nominal.ok()) {
      graph.emitOpError() << "[partition_stages_c2] " << Text(nominal.status());
      return mlir::failure();
    }
    costs = nominal->layers;
  }
  if (static_cast<int64_t>(costs.size()) != layers) {
    graph.emitOpError() << "[partition_stages_c3] " << costs.size() << " layer costs for " << layers << " layers";
    return mlir::failure();
  }
  RecomputeCosts recompute{{recomputeCosts.begin(), recomputeCosts.end()}, recomputeEvery};
  absl::StatusOr<std::vector<int32_t>> counts = BalancedPartition(costs, stages, recompute);
  if (!counts.ok()) {
    graph.emitOpError() << "[partition_stages_c4] " << Text(counts.status());
    return mlir::failure();
  }
  return *std::move(counts);
}

mlir::LogicalResult PartitionStagesPass::Partition(ir::GraphOp graph) {
  int64_t last = 0;
  for (mlir::Operation& op : graph.getBody().front().without_terminator()) {
    auto layer = op.getAttrOfType<mlir::IntegerAttr>(ir::kLayerAttr);
    if (!layer || layer.getInt() < last) {
      return op.emitOpError("[partition_stages_c5] needs a `layer` that is not below the layer of the op before it");
    }
    last = layer.getInt();
  }
  mlir::FailureOr<std::vector<int32_t>> counts = LayersPerStage(graph, last + 1);
  if (mlir::failed(counts)) return mlir::failure();
  std::vector<int32_t> stage_of_layer;
  for (size_t stage = 0; stage < counts->size(); ++stage) {
    stage_of_layer.insert(stage_of_layer.end(), (*counts)[stage], static_cast<int32_t>(stage));
  }
  mlir::Builder builder(graph.getContext());
  for (mlir::Operation& op : graph.getBody().front().without_terminator()) {
    int64_t layer = op.getAttrOfType<mlir::IntegerAttr>(ir::kLayerAttr).getInt();
    op.setAttr(ir::kStageAttr, builder.getI32IntegerAttr(stage_of_layer[layer]));
  }
  return mlir::success();
}

}  // namespace
}  // namespace weft
