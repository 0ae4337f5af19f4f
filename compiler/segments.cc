#include "compiler/segments.h"

#include <utility>

#include "compiler/cost_of_ops.h"
#include "compiler/diagnostic_status.h"
#include "compiler/import_graph.h"
#include "compiler/passes.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "proto/status.h"

namespace weft {

namespace {

absl::StatusOr<std::string> RecomputeMode(const Recompute& recompute) {
  switch (recompute.mode()) {
    case Recompute::NONE:
      return std::string("none");
    case Recompute::FULL:
      return std::string("full");
    case Recompute::LAYERS:
      return std::string("layers");
    case Recompute::EVERY:
      return std::string("every");
    default:
      return absl::InvalidArgumentError("plan.recompute.mode is unknown; allowed: NONE, FULL, LAYERS, EVERY");
  }
}

// Layers of each stage, as the stages of the graph's ops say.
std::vector<int32_t> LayersPerStage(mlir::ModuleOp module) {
  std::vector<int64_t> last_layer;
  for (ir::GraphOp graph : module.getOps<ir::GraphOp>()) {
    for (mlir::Operation& op : graph.getBody().front().without_terminator()) {
      int64_t stage = op.getAttrOfType<mlir::IntegerAttr>(ir::kStageAttr).getInt();
      if (stage >= static_cast<int64_t>(last_layer.size())) last_layer.resize(stage + 1);
      last_layer[stage] = op.getAttrOfType<mlir::IntegerAttr>(ir::kLayerAttr).getInt();
    }
  }
  std::vector<int32_t> counts;
  int64_t before = -1;
  for (int64_t layer : last_layer) {
    counts.push_back(static_cast<int32_t>(layer - before));
    before = layer;
  }
  return counts;
}

absl::Status RunPass(mlir::ModuleOp module, std::unique_ptr<mlir::Pass> pass) {
  DiagnosticCollector collector(module.getContext());
  mlir::PassManager passes(module.getContext());
  passes.addPass(std::move(pass));
  return collector.ToStatus(passes.run(module));
}

}  // namespace

absl::StatusOr<SegmentSet> CompileSegments(const ModelGraph& graph, const Recipe& recipe,
                                           const SegmentOptions& options) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<ir::WeftDialect>();
  ImportOptions import_options;
  import_options.precision = options.precision;
  import_options.accumulation = options.accumulation;
  import_options.evaluation = options.evaluation;
  WEFT_ASSIGN_OR_RETURN(ImportedGraph imported, ImportGraph(&context, graph, recipe, import_options));
  mlir::ModuleOp module = *imported.module;

  WEFT_ASSIGN_OR_RETURN(GraphCosts costs, CostsOfGraph(*module.getOps<ir::GraphOp>().begin(),
                                                       options.cost ? options.cost : StepCost(NominalStepCost)));
  PartitionStagesOptions partition;
  partition.stages = options.stages;
  partition.layersPerStage = options.layers_per_stage;
  partition.layerCosts = costs.layers;
  WEFT_RETURN_IF_ERROR(RunPass(module, createPartitionStages(partition)));
  std::vector<int32_t> layers_per_stage = LayersPerStage(module);

  BuildSegmentsOptions build;
  WEFT_ASSIGN_OR_RETURN(build.recompute, RecomputeMode(options.recompute));
  std::vector<int32_t> layers(options.recompute.layers().begin(), options.recompute.layers().end());
  build.recomputeLayers = layers;
  build.recomputeEvery = options.recompute.every();
  build.evaluate = options.evaluation;
  WEFT_RETURN_IF_ERROR(RunPass(module, createBuildSegments(build)));

  WEFT_ASSIGN_OR_RETURN(SegmentSet set, ExportSegments(module));
  set.tensors = std::move(imported.tensors);
  set.model_flops = costs.flops;
  set.model_flops_masked = costs.flops_masked;
  set.layers_per_stage = std::move(layers_per_stage);
  return set;
}

}  // namespace weft
