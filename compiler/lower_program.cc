#include "compiler/lower_program.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/compile.h"
#include "compiler/export/export_asynchronous.h"
#include "compiler/export/export_program.h"
#include "compiler/inputs/plan_schedule.h"
#include "compiler/inputs/switch_collectives.h"
#include "compiler/mixed_cut.h"
#include "compiler/rank/rank_passes.h"
#include "compiler/rank/rank_program.h"
#include "compiler/rewrite/offload_activations.h"
#include "compiler/rewrite/offload_optimizer.h"
#include "compiler/segments/collective_cost.h"
#include "compiler/segments/diagnostic_status.h"
#include "compiler/segments/schedule_segments.h"
#include "compiler/segments/slot_costs.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "proto/io/cluster_digest.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/version.h"
#include "schedules/pipeline/check.h"
#include "simulator/cost/cost_model.h"

namespace weft {
namespace {

RankProgramOptions RankOptions(const PlanInputs& inputs, const SlotCosts& costs, bool evaluation) {
  RankProgramOptions options;
  options.name = inputs.model.name();
  options.plan = inputs.plan;
  options.microbatches = inputs.microbatches;
  // With loss scaling, the optimizer's kernels clip the gradients when they undo the scale.
  const bool scaled = inputs.plan.loss_scale().fixed() > 0 || inputs.plan.loss_scale().growth_interval() > 0;
  options.clip = !evaluation && inputs.recipe.clip_norm() > 0 && !scaled;
  options.evaluation = evaluation;
  options.costs = costs;
  return options;
}

SegmentOptions OptionsOfSegments(const PlanInputs& inputs, const StepCost& cost) {
  SegmentOptions options;
  options.precision = inputs.plan.precision();
  options.accumulation = inputs.plan.accumulation();
  options.stages = inputs.schedule.stages;
  options.placement = inputs.schedule.placement;
  const Mesh& mesh = inputs.plan.mesh();
  options.tensor_parallel.x = AxisSize(mesh, "x");
  options.tensor_parallel.y = AxisSize(mesh, "y");
  options.tensor_parallel.z = AxisSize(mesh, "z");
  options.zero = StateShardsOf(inputs.plan);
  options.tensor_parallel.sequence_parallel = inputs.plan.sequence_parallel();
  options.tensor_parallel.algorithm = inputs.plan.collective();
  if (inputs.asynchronous) options.steps_per_repetition = inputs.asynchronous->steps_per_repetition;
  const BackwardKinds backwards = BackwardKindsOf(inputs.schedule);
  options.whole_backward = backwards.whole;
  options.split_backward = backwards.split;
  options.layers_per_stage = {inputs.plan.partition().layers_per_stage().begin(),
                              inputs.plan.partition().layers_per_stage().end()};
  options.recompute = inputs.plan.recompute();
  options.attention = inputs.plan.attention();
  options.dropout_masks = inputs.plan.dropout_masks();
  options.between_halves = inputs.plan.between_halves();
  options.overlap = inputs.plan.overlap();
  options.loss_scale = inputs.plan.loss_scale();
  options.in_flight = MicrobatchesInFlight(inputs.schedule);
  options.cost = cost;
  return options;
}

// The segments of the training program.
absl::StatusOr<SegmentSet> SegmentsOf(const PlanInputs& inputs, const StepCost& cost) {
  SegmentOptions options = OptionsOfSegments(inputs, cost);
  WEFT_ASSIGN_OR_RETURN(std::vector<int32_t> cut, MeasureAndCutOverKinds(inputs));
  if (!cut.empty()) options.layers_per_stage = std::move(cut);
  return CompileSegments(inputs.model, inputs.recipe, options);
}

// Reports each pass when it begins.
class PassProgress : public mlir::PassInstrumentation {
 public:
  explicit PassProgress(const std::function<void(absl::string_view)>& on_phase) : on_phase_(on_phase) {}

  void runBeforePass(mlir::Pass* pass, mlir::Operation*) override {
    // A pass without this prefix only runs the passes of a nested operation, so it is not reported.
    llvm::StringRef name = pass->getArgument();
    if (!name.consume_front("weft-")) return;
    on_phase_(absl::string_view(name.data(), name.size()));
  }

 private:
  const std::function<void(absl::string_view)>& on_phase_;
};

absl::Status RunRankPasses(mlir::MLIRContext& context, const PlanInputs& inputs, RankLevel& level) {
  DiagnosticCollector diagnostics(&context);
  mlir::PassManager passes(&context);
  passes.addInstrumentation(std::make_unique<PassProgress>(inputs.on_phase));
  // Verify the IR once at the end. Verification after each pass would take half of the time, and VerifyProgram checks
  // the final program.
  passes.enableVerifier(false);
  AddRankPasses(passes.nest<ir::ProgramOp>(), inputs.quick_arenas);
  WEFT_RETURN_IF_ERROR(diagnostics.ToStatus(passes.run(*level.module)));
  return diagnostics.ToStatus(mlir::verify(*level.module));
}

// Fields of a program that do not come from the rank level.
void FillHeader(const PlanInputs& inputs, const SegmentSet& segments, Program& program) {
  program.set_name(inputs.model.name());
  program.set_compiler_version(kVersion);
  program.set_runtime("weft");
  program.set_cluster_name(inputs.cluster.name());
  program.set_cluster_digest(ClusterDigest(inputs.cluster));
  *program.mutable_recipe() = inputs.recipe;
  *program.mutable_precision() = inputs.plan.precision();
  program.set_accumulation(inputs.plan.accumulation());
  program.set_vocabulary(inputs.model.vocabulary());
  program.set_image_size(inputs.model.image_size());
  program.set_image_channels(inputs.model.image_channels());
  program.set_step_barrier(inputs.plan.step_barrier());
  const double count =
      static_cast<double>(inputs.microbatches) * static_cast<double>(AxisSize(inputs.plan.mesh(), "data"));
  program.set_model_flops(static_cast<double>(segments.model_flops) * count);
  program.set_model_flops_masked(static_cast<double>(segments.model_flops_masked) * count);
}

absl::StatusOr<RankLevel> LowerEvaluation(CompileContext& context, const PlanInputs& inputs, const StepCost& cost,
                                          RankLevel& training) {
  RankLevel level;
  SegmentOptions options = OptionsOfSegments(inputs, cost);
  options.layers_per_stage = training.segments.layers_per_stage;
  options.evaluation = true;
  WEFT_ASSIGN_OR_RETURN(level.segments, CompileSegments(inputs.model, inputs.recipe, options));
  level.module = BuildRankProgram(&context.mlir, level.segments, RankOptions(inputs, {}, true));
  SharePersistentBuffers(training.program(), level.program());
  WEFT_RETURN_IF_ERROR(RunRankPasses(context.mlir, inputs, level));
  return level;
}

}  // namespace

absl::StatusOr<StepCost> CostsOf(const PlanInputs& inputs) {
  WEFT_ASSIGN_OR_RETURN(const sim::CostModelEntry* model, sim::FindCostModel(inputs.cost));
  if (model->basis == sim::CostBasis::kSchedule) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cost model '", model->name,
        "' knows no devices, so the compiler cannot use it; allowed: ", absl::StrJoin(sim::DeviceCostModels(), ", ")));
  }
  auto compute = [model, &cluster = inputs.cluster](const Segment& segment, const Step& step,
                                                    ActionKind kind) -> absl::StatusOr<int64_t> {
    WEFT_ASSIGN_OR_RETURN(Time time, model->cost(step, sim::ShapesOf(segment, step), kind, 0, cluster, {}));
    return time.ps;
  };
  return WithCollectives(compute, inputs.plan.mesh(), inputs.cluster);
}

absl::StatusOr<MeasuredLayers> MeasureLayersOf(const PlanInputs& inputs, const StepCost& cost) {
  return MeasureLayers(inputs.model, inputs.recipe, OptionsOfSegments(inputs, cost));
}

absl::StatusOr<RankLevel> LowerTraining(CompileContext& context, const PlanInputs& inputs, const StepCost& cost) {
  RankLevel level;
  inputs.on_phase("building stages");
  WEFT_ASSIGN_OR_RETURN(level.segments, SegmentsOf(inputs, cost));
  WEFT_ASSIGN_OR_RETURN(const SlotCosts costs,
                        SlotCostsOf(level.segments, inputs.schedule, cost, inputs.plan.mesh(), inputs.cluster));
  // The order that the rank level will request, computed from the real costs of the slots.
  WEFT_ASSIGN_OR_RETURN(const PipelineSchedule schedule,
                        ScheduleOf(ChoiceOf(inputs.plan.schedule(), static_cast<int>(inputs.schedule.order.size()),
                                            inputs.microbatches, costs)));
  if (inputs.plan.accumulation() == IN_ORDER) WEFT_RETURN_IF_ERROR(CheckAccumulationOrder(schedule));
  WEFT_RETURN_IF_ERROR(SelectSegments(schedule, cost, &level.segments));
  level.module = BuildRankProgram(&context.mlir, level.segments, RankOptions(inputs, costs, false));
  WEFT_RETURN_IF_ERROR(RunRankPasses(context.mlir, inputs, level));
  return level;
}

absl::StatusOr<Program> CompileTraining(CompileContext& context, const PlanInputs& inputs, const StepCost& cost,
                                        RankLevel* training) {
  WEFT_ASSIGN_OR_RETURN(RankLevel level, LowerTraining(context, inputs, cost));
  inputs.on_phase("exporting");
  WEFT_ASSIGN_OR_RETURN(Program program, ExportProgram(level.program(), level.segments));
  FillHeader(inputs, level.segments, program);
  if (training != nullptr) *training = std::move(level);
  return program;
}

namespace {

// Returns the training program, with the evaluation program if asked for.
absl::StatusOr<Program> CompileSynchronous(const PlanInputs& inputs, const StepCost& cost, bool evaluation,
                                           std::vector<int32_t>* layers_per_stage) {
  CompileContext context;
  RankLevel training;
  WEFT_ASSIGN_OR_RETURN(Program program, CompileTraining(context, inputs, cost, &training));
  if (layers_per_stage != nullptr) {
    layers_per_stage->assign(training.segments.layers_per_stage.begin(), training.segments.layers_per_stage.end());
  }
  if (evaluation) {
    WEFT_ASSIGN_OR_RETURN(RankLevel level, LowerEvaluation(context, inputs, cost, training));
    WEFT_ASSIGN_OR_RETURN(*program.mutable_evaluation(), ExportProgram(level.program(), level.segments));
    FillHeader(inputs, level.segments, *program.mutable_evaluation());
    program.mutable_evaluation()->mutable_recipe()->set_dropout(0);
  }
  return program;
}

// Applies plan.offload.
absl::Status ApplyOffload(const PlanInputs& inputs, Program* program, std::vector<std::string>* notes) {
  const Offload& offload = inputs.plan.offload();
  if (offload.activation_layers() > 0) {
    WEFT_RETURN_IF_ERROR(OffloadActivations(inputs.model, offload.activation_layers(), program, notes));
  }
  return offload.optimizer() ? OffloadOptimizer(offload, program) : absl::OkStatus();
}

// Returns the program of a schedule that never flushes.
absl::StatusOr<Program> CompileAsynchronous(const PlanInputs& inputs, const StepCost& cost,
                                            std::vector<int32_t>* layers_per_stage) {
  inputs.on_phase("building stages");
  WEFT_ASSIGN_OR_RETURN(const SegmentSet segments, SegmentsOf(inputs, cost));
  if (layers_per_stage != nullptr) {
    layers_per_stage->assign(segments.layers_per_stage.begin(), segments.layers_per_stage.end());
  }
  inputs.on_phase("exporting");
  WEFT_ASSIGN_OR_RETURN(Program program, ExportAsynchronous(*inputs.asynchronous, segments, inputs.plan));
  FillHeader(inputs, segments, program);
  return program;
}

}  // namespace

absl::StatusOr<Program> LowerPlan(const PlanInputs& inputs, const StepCost& cost, bool evaluation,
                                  std::vector<int32_t>* layers_per_stage, std::vector<std::string>* notes) {
  Program program;
  if (inputs.asynchronous) {
    WEFT_ASSIGN_OR_RETURN(program, CompileAsynchronous(inputs, cost, layers_per_stage));
  } else {
    WEFT_ASSIGN_OR_RETURN(program, CompileSynchronous(inputs, cost, evaluation, layers_per_stage));
  }
  WEFT_RETURN_IF_ERROR(CheckSwitchCollectives(program, inputs.cluster));
  WEFT_RETURN_IF_ERROR(ApplyOffload(inputs, &program, notes));
  return program;
}

}  // namespace weft
