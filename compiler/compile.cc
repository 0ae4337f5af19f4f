#include "compiler/compile.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/diagnostic_status.h"
#include "compiler/export_program.h"
#include "compiler/import_graph.h"
#include "compiler/memory_fit.h"
#include "compiler/rank_passes.h"
#include "compiler/rank_program.h"
#include "compiler/segments.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "proto/io.h"
#include "proto/mesh.h"
#include "proto/status.h"
#include "proto/validate.h"
#include "proto/verify/verify.h"
#include "proto/version.h"
#include "schedules/collective/plan.h"
#include "schedules/pipeline/schedule.h"
#include "simulator/cost/cost_model.h"

namespace weft {
namespace {

// Specs with their defaults filled in, and what follows from them together.
struct Inputs {
  ModelGraph model;
  Recipe recipe;
  Plan plan;
  Cluster cluster;
  int32_t microbatches = 1;
  int32_t stages = 1;
};

// Without `recipe.dropout` a model trains without dropout, whatever its config says; that is worth a note.
void ResolveDropout(const ModelGraph& model, Recipe& recipe, std::vector<std::string>* notes) {
  if (recipe.has_dropout()) return;
  double most = 0;
  for (const GraphOp& op : model.ops()) most = std::max(most, op.attributes().dropout());
  recipe.set_dropout(0);
  if (most > 0 && notes != nullptr) {
    notes->push_back(absl::StrFormat(
        "the model's config has dropout %g, but recipe.dropout is not set: training is without dropout", most));
  }
}

// Costing a collective needs no list of its messages, running it does; a plan that is only simulated may be larger.
void NoteLargeGroups(const Mesh& mesh, std::vector<std::string>* notes) {
  if (notes == nullptr) return;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.size() <= kMaximumPlanMembers) continue;
    notes->push_back(absl::StrCat("plan.mesh: axis '", axis.name(), "' has ", axis.size(),
                                  " ranks; sums over more than ", kMaximumPlanMembers,
                                  " can be simulated, but weft run refuses them"));
  }
}

absl::StatusOr<Inputs> Resolve(const ModelGraph& model, const Recipe& recipe, const Plan& plan, const Cluster& cluster,
                               std::vector<std::string>* notes) {
  Inputs inputs{model, recipe, plan, cluster};
  WEFT_RETURN_IF_ERROR(Validate(inputs.model));
  WEFT_RETURN_IF_ERROR(ValidateAndResolve(&inputs.recipe));
  WEFT_RETURN_IF_ERROR(Validate(inputs.cluster));
  WEFT_RETURN_IF_ERROR(ValidateAndResolve(&inputs.plan, inputs.cluster.device()));
  WEFT_RETURN_IF_ERROR(ValidateTogether(inputs.recipe, inputs.model));
  WEFT_RETURN_IF_ERROR(ValidateTogether(inputs.plan, inputs.cluster));
  WEFT_ASSIGN_OR_RETURN(int64_t microbatches, MicrobatchesPerReplica(inputs.recipe, inputs.plan.mesh()));
  // Before any list is built: a program has an action or more per stage and microbatch.
  constexpr int64_t kMostPairs = int64_t{1} << 18;
  const int64_t ranks = AxisSize(inputs.plan.mesh(), "pipe");
  if (microbatches > kMostPairs / ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("recipe.global_batch_sequences = ", inputs.recipe.global_batch_sequences(), " gives ",
                     microbatches, " microbatches per replica; at most ", kMostPairs / ranks, " for ", ranks,
                     " pipe ranks: use a larger recipe.microbatch_sequences or more data replicas"));
  }
  inputs.microbatches = static_cast<int32_t>(microbatches);
  WEFT_RETURN_IF_ERROR(FindCollective(inputs.plan.collective()).status());
  WEFT_ASSIGN_OR_RETURN(const ScheduleEntry* schedule, FindSchedule(inputs.plan.schedule().name()));
  ScheduleParams params;
  params.ranks = static_cast<int>(ranks);
  params.microbatches = inputs.microbatches;
  WEFT_ASSIGN_OR_RETURN(PipelineSchedule built, schedule->build(params));
  inputs.stages = built.stages;
  ResolveDropout(inputs.model, inputs.recipe, notes);
  NoteLargeGroups(inputs.plan.mesh(), notes);
  return inputs;
}

// Shares of forward and backward of one microbatch in a million units: schedules need their proportion only.
struct MicrobatchCost {
  int64_t forward = 1;
  int64_t backward = 2;
};

using CostFn = std::function<absl::StatusOr<int64_t>(const Step& step, ActionKind kind)>;

absl::StatusOr<CostFn> Costs(const Cluster& cluster) {
  WEFT_ASSIGN_OR_RETURN(const CostModelEntry* model, FindCostModel("roofline"));
  return CostFn([model, &cluster](const Step& step, ActionKind kind) -> absl::StatusOr<int64_t> {
    WEFT_ASSIGN_OR_RETURN(Time time, model->cost(step, kind, 0, cluster, {}));
    return time.ps;
  });
}

absl::StatusOr<MicrobatchCost> CostOfMicrobatch(const SegmentSet& segments, const CostFn& cost) {
  double forward = 0, backward = 0;
  for (const StageSegment& segment : segments.segments) {
    const bool is_forward = segment.kind == ir::SegmentKind::Forward;
    if (!is_forward && segment.kind != ir::SegmentKind::Backward) continue;
    for (const Step& step : segment.segment.steps()) {
      WEFT_ASSIGN_OR_RETURN(int64_t ps, cost(step, is_forward ? FORWARD : BACKWARD));
      (is_forward ? forward : backward) += static_cast<double>(ps);
    }
  }
  constexpr int64_t kUnits = 1'000'000;
  MicrobatchCost result;
  if (forward + backward > 0) {
    result.forward = std::clamp<int64_t>(std::llround(kUnits * (forward / (forward + backward))), 1, kUnits - 1);
    result.backward = kUnits - result.forward;
  }
  return result;
}

RankProgramOptions RankOptions(const Inputs& inputs, const MicrobatchCost& cost, bool evaluation) {
  RankProgramOptions options;
  options.name = inputs.model.name();
  options.plan = inputs.plan;
  options.microbatches = inputs.microbatches;
  options.clip = !evaluation && inputs.recipe.clip_norm() > 0;
  options.evaluation = evaluation;
  options.forward_cost = cost.forward;
  options.backward_cost = cost.backward;
  return options;
}

SegmentOptions OptionsOfSegments(const Inputs& inputs, const CostFn& cost) {
  SegmentOptions options;
  options.precision = inputs.plan.precision();
  options.accumulation = inputs.plan.accumulation();
  options.stages = inputs.stages;
  options.layers_per_stage = {inputs.plan.partition().layers_per_stage().begin(),
                              inputs.plan.partition().layers_per_stage().end()};
  options.recompute = inputs.plan.recompute();
  options.cost = cost;
  return options;
}

// One program on its way through the passes of the rank level.
struct RankLevel {
  SegmentSet segments;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ir::ProgramOp program() { return *module->getOps<ir::ProgramOp>().begin(); }
};

absl::Status RunRankPasses(mlir::MLIRContext& context, RankLevel& level) {
  DiagnosticCollector diagnostics(&context);
  mlir::PassManager passes(&context);
  // Once at the end instead of behind each pass: that is half of the time, and VerifyProgram has the last word.
  passes.enableVerifier(false);
  AddRankPasses(passes.nest<ir::ProgramOp>());
  WEFT_RETURN_IF_ERROR(diagnostics.ToStatus(passes.run(*level.module)));
  return diagnostics.ToStatus(mlir::verify(*level.module));
}

// Fields of a program that do not come from the rank level.
void FillHeader(const Inputs& inputs, const SegmentSet& segments, Program& program) {
  program.set_name(inputs.model.name());
  program.set_compiler_version(kVersion);
  program.set_runtime("weft");
  program.set_cluster_name(inputs.cluster.name());
  program.set_cluster_digest(ClusterDigest(inputs.cluster));
  *program.mutable_recipe() = inputs.recipe;
  *program.mutable_precision() = inputs.plan.precision();
  program.set_accumulation(inputs.plan.accumulation());
  program.set_vocabulary(inputs.model.vocabulary());
  program.set_step_barrier(inputs.plan.step_barrier());
  const double count =
      static_cast<double>(inputs.microbatches) * static_cast<double>(AxisSize(inputs.plan.mesh(), "data"));
  program.set_model_flops(static_cast<double>(segments.model_flops) * count);
  program.set_model_flops_masked(static_cast<double>(segments.model_flops_masked) * count);
}

// A context for one compilation.
struct Context {
  mlir::MLIRContext mlir{mlir::MLIRContext::Threading::DISABLED};
  Context() { mlir.loadDialect<ir::WeftDialect>(); }
};

absl::StatusOr<RankLevel> LowerTraining(Context& context, const Inputs& inputs, const CostFn& cost) {
  RankLevel level;
  WEFT_ASSIGN_OR_RETURN(level.segments, CompileSegments(inputs.model, inputs.recipe, OptionsOfSegments(inputs, cost)));
  WEFT_ASSIGN_OR_RETURN(MicrobatchCost microbatch, CostOfMicrobatch(level.segments, cost));
  level.module = BuildRankProgram(&context.mlir, level.segments, RankOptions(inputs, microbatch, false));
  WEFT_RETURN_IF_ERROR(RunRankPasses(context.mlir, level));
  return level;
}

absl::StatusOr<RankLevel> LowerEvaluation(Context& context, const Inputs& inputs, const CostFn& cost,
                                          RankLevel& training) {
  RankLevel level;
  SegmentOptions options = OptionsOfSegments(inputs, cost);
  options.layers_per_stage = training.segments.layers_per_stage;
  options.evaluation = true;
  WEFT_ASSIGN_OR_RETURN(level.segments, CompileSegments(inputs.model, inputs.recipe, options));
  level.module = BuildRankProgram(&context.mlir, level.segments, RankOptions(inputs, {}, true));
  SharePersistentBuffers(training.program(), level.program());
  WEFT_RETURN_IF_ERROR(RunRankPasses(context.mlir, level));
  return level;
}

}  // namespace

uint64_t ClusterDigest(const Cluster& cluster) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    cluster.SerializeToCodedStream(&coded);
  }
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

int64_t PlannedDeviceBytes(const Program& program) {
  int64_t most = 0;
  for (const Template& t : program.templates()) most = std::max(most, t.device_arena_bytes());
  for (const Template& t : program.evaluation().templates()) most = std::max(most, t.device_arena_bytes());
  return most;
}

absl::StatusOr<Program> Compile(const ModelGraph& model, const Recipe& recipe, const Plan& plan, const Cluster& cluster,
                                const CompileOptions& options) {
  WEFT_ASSIGN_OR_RETURN(Inputs inputs, Resolve(model, recipe, plan, cluster, options.notes));
  WEFT_ASSIGN_OR_RETURN(CostFn cost, Costs(inputs.cluster));
  Context context;
  WEFT_ASSIGN_OR_RETURN(RankLevel training, LowerTraining(context, inputs, cost));
  WEFT_ASSIGN_OR_RETURN(Program program, ExportProgram(training.program(), training.segments));
  FillHeader(inputs, training.segments, program);
  if (options.evaluation) {
    WEFT_ASSIGN_OR_RETURN(RankLevel evaluation, LowerEvaluation(context, inputs, cost, training));
    WEFT_ASSIGN_OR_RETURN(*program.mutable_evaluation(), ExportProgram(evaluation.program(), evaluation.segments));
    FillHeader(inputs, evaluation.segments, *program.mutable_evaluation());
    program.mutable_evaluation()->mutable_recipe()->set_dropout(0);
  }
  if (absl::Status fits = CheckMemoryFit(program, inputs.cluster); !fits.ok()) {
    if (!options.allow_oom) return fits;
    if (options.notes != nullptr) options.notes->push_back(std::string(fits.message()));
    program.set_does_not_fit(true);
    if (program.has_evaluation()) program.mutable_evaluation()->set_does_not_fit(true);
  }
  VerifyOptions verify;
  verify.allow_unfit = options.allow_oom;
  verify.algorithms = KnownCollectives();
  WEFT_RETURN_IF_ERROR(VerifyProgram(program, verify));
  return program;
}

absl::StatusOr<std::string> EmitIr(const ModelGraph& model, const Recipe& recipe, const Plan& plan,
                                   const Cluster& cluster, absl::string_view level) {
  if (level == "program") {
    CompileOptions options;
    options.allow_oom = true;
    WEFT_ASSIGN_OR_RETURN(Program program, Compile(model, recipe, plan, cluster, options));
    return MessageToText(program);
  }
  WEFT_ASSIGN_OR_RETURN(Inputs inputs, Resolve(model, recipe, plan, cluster, nullptr));
  Context context;
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (level == "graph") {
    ImportOptions import;
    import.precision = inputs.plan.precision();
    import.accumulation = inputs.plan.accumulation();
    WEFT_ASSIGN_OR_RETURN(ImportedGraph graph, ImportGraph(&context.mlir, inputs.model, inputs.recipe, import));
    graph.module->print(stream);
    return stream.str();
  }
  if (level == "rank") {
    WEFT_ASSIGN_OR_RETURN(CostFn cost, Costs(inputs.cluster));
    WEFT_ASSIGN_OR_RETURN(RankLevel training, LowerTraining(context, inputs, cost));
    training.module->print(stream);
    return stream.str();
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown level of IR '", level, "'; known: graph, rank, program"));
}

}  // namespace weft
