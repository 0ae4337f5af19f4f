#include "compiler/lower_segments.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/export/export_segments.h"
#include "compiler/graph/balanced_partition.h"
#include "compiler/graph/import_graph.h"
#include "compiler/graph/tensor_shards.h"
#include "compiler/overlap/overlap_util.h"
#include "compiler/passes/passes.h"
#include "compiler/segments/cost_of_ops.h"
#include "compiler/segments/diagnostic_status.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "proto/util/status.h"

namespace weft {

namespace {

absl::StatusOr<std::string> RecomputeMode(const Recompute& recompute) {
  switch (recompute.mode()) {
    case Recompute::NONE:
      return std::string("none");
    case Recompute::FULL:
      return std::string("full");
    case Recompute::SELECTIVE:
      return std::string("selective");
    case Recompute::LAYERS:
      return std::string("layers");
    case Recompute::EVERY:
      return std::string("every");
    case Recompute::INTERVAL:
      return std::string("interval");
    case Recompute::AXONN:
      return std::string("axonn");
    default:
      return absl::InvalidArgumentError(
          "plan.recompute.mode is unknown; allowed: NONE, FULL, SELECTIVE, LAYERS, EVERY, INTERVAL, AXONN");
  }
}

// Layers of each stage, derived from the stages of the graph's ops.
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

// Uses of each tensor in each stage, derived from the stages of the graph's ops.
std::vector<StageUses> UsesPerStage(mlir::ModuleOp module) {
  std::vector<StageUses> uses;
  for (ir::GraphOp graph : module.getOps<ir::GraphOp>()) {
    for (mlir::Operation& op : graph.getBody().front().without_terminator()) {
      const size_t stage = op.getAttrOfType<mlir::IntegerAttr>(ir::kStageAttr).getInt();
      if (stage >= uses.size()) uses.resize(stage + 1);
      if (auto parameter = mlir::dyn_cast<ir::ParameterOp>(op)) {
        uses[stage][static_cast<int32_t>(parameter.getTensor())].push_back(static_cast<int32_t>(parameter.getUse()));
      }
    }
  }
  return uses;
}

absl::Status RunPass(mlir::ModuleOp module, std::unique_ptr<mlir::Pass> pass) {
  DiagnosticCollector collector(module.getContext());
  mlir::PassManager passes(module.getContext());
  passes.addPass(std::move(pass));
  return collector.ToStatus(passes.run(module));
}

// Measures the layers on trial segments: builds the segments of a single stage that holds all layers, and discards
// them.
absl::StatusOr<MeasuredLayers> MeasureOnTrial(mlir::ModuleOp module, size_t layers, BuildSegmentsOptions build,
                                              const StepCost& cost) {
  MeasuredLayers measured;
  measured.layers.resize(layers, 0);
  measured.recompute.layers.resize(layers, 0);
  const bool by_position = build.recompute != "none" && build.recompute != "layers" && build.recompute != "selective";
  if (build.recompute == "every") measured.recompute.every = build.recomputeEvery;
  if (by_position) build.recompute = "full";
  build.wholeBackward = true;
  build.splitBackward = false;
  build.placement = {};
  mlir::OwningOpRef<mlir::ModuleOp> trial = module.clone();
  PartitionStagesOptions one_stage;
  std::vector<int32_t> all = {static_cast<int32_t>(layers)};
  one_stage.layersPerStage = all;
  WEFT_RETURN_IF_ERROR(RunPass(*trial, createPartitionStages(one_stage)));
  WEFT_RETURN_IF_ERROR(RunPass(*trial, createBuildSegments(build)));
  for (ir::SegmentOp segment : trial->getOps<ir::SegmentOp>()) {
    const bool is_forward = segment.getKind() == ir::SegmentKind::Forward;
    if (!is_forward && segment.getKind() != ir::SegmentKind::Backward) continue;
    for (mlir::Operation& op : segment.getBody().front()) {
      auto layer = op.getAttrOfType<mlir::IntegerAttr>(ir::kLayerAttr);
      if (!layer || !mlir::isa<ir::KernelInterface>(op)) continue;
      WEFT_ASSIGN_OR_RETURN(int64_t picoseconds, CostOfOp(&op, is_forward ? FORWARD : BACKWARD, cost));
      auto part = op.getAttrOfType<mlir::StringAttr>(ir::kPartAttr);
      const bool again = by_position && part && part.getValue() == "recompute";
      int64_t& sum = (again ? measured.recompute.layers : measured.layers)[layer.getInt()];
      sum = ir::SaturatingAdd(sum, std::max<int64_t>(0, picoseconds));
      // Recompute modes that choose layers by position neither count nor recompute the layer of the loss. A cost of -1
      // says so.
      if (ir::IsLoss(&op)) measured.recompute.layers[layer.getInt()] = -1;
    }
  }
  return measured;
}

// Stores at every gather of weights the picoseconds that it takes. From these weft-cache-gathered chooses the gathers
// whose results are kept.
absl::Status SetGatherCosts(mlir::ModuleOp module, const StepCost& cost) {
  mlir::Builder builder(module.getContext());
  for (ir::SegmentOp segment : module.getOps<ir::SegmentOp>()) {
    if (segment.getKind() != ir::SegmentKind::Forward) continue;
    for (mlir::Operation& op : segment.getBody().front()) {
      if (!GatherOfWeights(&op)) continue;
      WEFT_ASSIGN_OR_RETURN(const int64_t picoseconds, CostOfOp(&op, BACKWARD, cost));
      op.setAttr(kCostAttr, builder.getI64IntegerAttr(picoseconds));
    }
  }
  return absl::OkStatus();
}

// Runs the passes of docs/overlap.md that the plan asks for.
absl::Status OverlapCollectives(mlir::ModuleOp module, const SegmentOptions& options,
                                const std::vector<int32_t>& placement, const StepCost& cost) {
  const Overlap& overlap = options.overlap;
  if (overlap.gathered_cache_bytes() > 0) {
    WEFT_RETURN_IF_ERROR(SetGatherCosts(module, cost));
    CacheGatheredOptions cache;
    cache.bytes = overlap.gathered_cache_bytes();
    cache.inFlight = options.in_flight;
    cache.placement = placement;
    WEFT_RETURN_IF_ERROR(RunPass(module, createCacheGathered(cache)));
  }
  if (options.zero.keep_for_backward) {
    CacheGatheredOptions keep;
    keep.bytes = std::numeric_limits<int64_t>::max();
    keep.replicas = true;
    keep.placement = placement;
    WEFT_RETURN_IF_ERROR(RunPass(module, createCacheGathered(keep)));
  }
  auto asked = [](bool given, bool value) { return !given || value; };
  if (asked(overlap.has_all_gather(), overlap.all_gather())) {
    PrefetchAllGatherOptions prefetch;
    prefetch.ahead = options.zero.prefetch;
    WEFT_RETURN_IF_ERROR(RunPass(module, createPrefetchAllGather(prefetch)));
  }
  if (asked(overlap.has_all_reduce(), overlap.all_reduce())) {
    WEFT_RETURN_IF_ERROR(RunPass(module, createOverlapAllReduce()));
  }
  if (asked(overlap.has_reduce_scatter(), overlap.reduce_scatter())) {
    WEFT_RETURN_IF_ERROR(RunPass(module, createDeferReduceScatter()));
  }
  return absl::OkStatus();
}

// A model as the ranks of a layer compute it, not yet cut into stages.
struct ShardedGraph {
  ImportedGraph imported;
  GraphCosts costs;
  // Flops of the whole model, whatever part of it a rank has.
  int64_t model_flops = 0;
  int64_t model_flops_masked = 0;
};

absl::StatusOr<ShardedGraph> ImportAndShard(mlir::MLIRContext* context, const ModelGraph& graph, const Recipe& recipe,
                                            const SegmentOptions& options, const StepCost& cost) {
  ImportOptions import_options;
  import_options.precision = options.precision;
  import_options.accumulation = options.accumulation;
  import_options.evaluation = options.evaluation;
  import_options.steps_per_repetition = options.steps_per_repetition;
  import_options.loss_scale = options.loss_scale;
  import_options.vocabulary_shards = options.tensor_parallel.x;
  ShardedGraph made;
  WEFT_ASSIGN_OR_RETURN(made.imported, ImportGraph(context, graph, recipe, import_options));
  mlir::ModuleOp module = *made.imported.module;
  WEFT_ASSIGN_OR_RETURN(made.costs, CostsOfGraph(*module.getOps<ir::GraphOp>().begin(), cost));
  made.model_flops = made.costs.flops;
  made.model_flops_masked = made.costs.flops_masked;
  const bool materialized = options.attention == MATERIALIZED, sharded = IsSharded(options.tensor_parallel);
  if (materialized) WEFT_RETURN_IF_ERROR(RunPass(module, createMaterializeAttention()));
  if (options.dropout_masks) WEFT_RETURN_IF_ERROR(RunPass(module, createKeepDropoutMasks()));
  if (sharded) {
    WEFT_RETURN_IF_ERROR(
        RunPass(module, createShard(OptionsOfShard(options.tensor_parallel, recipe.sequence_length()))));
  }
  if (options.zero.members > 1) {
    WEFT_RETURN_IF_ERROR(
        RunPass(module, createShardStates(OptionsOfShardStates(options.zero, options.tensor_parallel.algorithm))));
  }
  if (materialized || options.dropout_masks || sharded || options.zero.members > 1) {
    WEFT_ASSIGN_OR_RETURN(made.costs, CostsOfGraph(*module.getOps<ir::GraphOp>().begin(), cost));
  }
  return made;
}

// The options of weft-build-segments, except the placement. `options` must outlive them.
absl::StatusOr<BuildSegmentsOptions> BuildOptionsOf(const SegmentOptions& options) {
  BuildSegmentsOptions build;
  WEFT_ASSIGN_OR_RETURN(build.recompute, RecomputeMode(options.recompute));
  build.recomputeLayers = llvm::ArrayRef<int32_t>(options.recompute.layers().data(), options.recompute.layers().size());
  build.recomputeEvery = options.recompute.every();
  build.recomputeInterval = options.recompute.interval();
  build.evaluate = options.evaluation;
  build.wholeBackward = options.whole_backward;
  build.splitBackward = options.split_backward;
  build.normsInInputHalf = options.between_halves != EVERYTHING;
  build.gatherAgain = options.between_halves == OWN_ROWS;
  return build;
}

}  // namespace

absl::StatusOr<MeasuredLayers> MeasureLayers(const ModelGraph& graph, const Recipe& recipe,
                                             const SegmentOptions& options) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<ir::WeftDialect>();
  const StepCost cost = options.cost ? options.cost : StepCost(NominalStepCost);
  WEFT_ASSIGN_OR_RETURN(const ShardedGraph sharded, ImportAndShard(&context, graph, recipe, options, cost));
  WEFT_ASSIGN_OR_RETURN(const BuildSegmentsOptions build, BuildOptionsOf(options));
  return MeasureOnTrial(*sharded.imported.module, sharded.costs.layers.size(), build, cost);
}

absl::StatusOr<SegmentSet> CompileSegments(const ModelGraph& graph, const Recipe& recipe,
                                           const SegmentOptions& options) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<ir::WeftDialect>();
  const StepCost cost = options.cost ? options.cost : StepCost(NominalStepCost);
  WEFT_ASSIGN_OR_RETURN(ShardedGraph sharded, ImportAndShard(&context, graph, recipe, options, cost));
  const GraphCosts& costs = sharded.costs;
  mlir::ModuleOp module = *sharded.imported.module;
  WEFT_ASSIGN_OR_RETURN(BuildSegmentsOptions build, BuildOptionsOf(options));

  PartitionStagesOptions partition;
  partition.stages = options.stages;
  partition.layersPerStage = options.layers_per_stage;
  partition.layerCosts = costs.layers;
  MeasuredLayers measured;  // `partition` refers to `measured`.
  if (options.stages > 1 && options.layers_per_stage.empty() && !options.evaluation) {
    WEFT_ASSIGN_OR_RETURN(measured, MeasureOnTrial(module, costs.layers.size(), build, cost));
    partition.layerCosts = measured.layers;
    partition.recomputeCosts = measured.recompute.layers;
    partition.recomputeEvery = measured.recompute.every;
  }
  WEFT_RETURN_IF_ERROR(RunPass(module, createPartitionStages(partition)));
  std::vector<int32_t> layers_per_stage = LayersPerStage(module);
  const std::vector<std::vector<int>> lanes =
      options.placement.empty() ? OneStagePerRank(options.stages) : options.placement;
  std::vector<int32_t> placement;  // `build` refers to `placement`.
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    if (static_cast<int64_t>(lanes[lane].size()) != options.stages) {
      return absl::InvalidArgumentError(absl::StrCat("placement: lane ", lane, " places ", lanes[lane].size(),
                                                     " stages; the plan has ", options.stages));
    }
    placement.insert(placement.end(), lanes[lane].begin(), lanes[lane].end());
  }
  build.placement = placement;
  std::vector<StageUses> uses = UsesPerStage(module);
  WEFT_RETURN_IF_ERROR(RunPass(module, createBuildSegments(build)));
  WEFT_RETURN_IF_ERROR(OverlapCollectives(module, options, placement, cost));
  if (options.split_backward && options.between_halves != EVERYTHING && !options.evaluation) {
    WEFT_RETURN_IF_ERROR(RunPass(module, createReuseSaved()));
  }

  WEFT_ASSIGN_OR_RETURN(SegmentSet set, ExportSegments(module));
  for (size_t stage = 0; options.split_backward && !options.evaluation && stage < set.stages.size(); ++stage) {
    if (set.stages[stage].backward_weight >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("stage ", stage,
                     " has no parameters, so its backward cannot be cut in two; give it other layers "
                     "(partition.layers_per_stage), or use a schedule with whole backwards"));
  }
  WEFT_ASSIGN_OR_RETURN(set.holdings, HoldingsOf(lanes, uses));
  if (!options.evaluation) set.ranks.resize(set.holdings.ranks.size());
  set.tensors = std::move(sharded.imported.tensors);
  DescribeShards(module, &set);
  set.model_flops = sharded.model_flops;
  set.model_flops_masked = sharded.model_flops_masked;
  set.layers_per_stage = std::move(layers_per_stage);
  return set;
}

}  // namespace weft
