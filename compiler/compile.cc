#include "compiler/compile.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/import_graph.h"
#include "compiler/lower_program.h"
#include "compiler/memory_fit.h"
#include "compiler/plan_check.h"
#include "compiler/plan_choices.h"
#include "compiler/plan_inputs.h"
#include "compiler/plan_notes.h"
#include "compiler/plan_reshard.h"
#include "compiler/rewrite/post_validation.h"
#include "compiler/switch_collectives.h"
#include "compiler/ways_out_tries.h"
#include "proto/io.h"
#include "proto/status.h"
#include "proto/verify/verify.h"
#include "schedules/collective/plan.h"

namespace weft {
int64_t PlannedDeviceBytes(const Program& program) {
  int64_t most = 0;
  for (const Template& t : program.templates()) most = std::max(most, t.device_arena_bytes());
  for (const Template& t : program.evaluation().templates()) most = std::max(most, t.device_arena_bytes());
  return most;
}

absl::StatusOr<Program> Compile(const ModelGraph& model, const Recipe& recipe, const Plan& plan, const Cluster& cluster,
                                const CompileOptions& options) {
  WEFT_ASSIGN_OR_RETURN(PlanInputs inputs, ResolveInputs(model, recipe, plan, cluster, options.notes));
  inputs.cost = options.cost;
  if (options.on_phase != nullptr) inputs.on_phase = options.on_phase;
  WEFT_ASSIGN_OR_RETURN(StepCost cost, CostsOf(inputs));
  WEFT_RETURN_IF_ERROR(ResolveRecompute(inputs, cost, options.notes));
  Program program;
  std::optional<FrozenSchedule> frozen;
  std::vector<int32_t> layers_per_stage;
  if (inputs.asynchronous) {
    WEFT_ASSIGN_OR_RETURN(program, CompileAsynchronous(inputs, cost, nullptr));
    if (options.evaluation && options.notes != nullptr) {
      options.notes->push_back(absl::StrCat("schedule '", program.schedule(),
                                            "' updates the weights without a flush: no evaluation program is made"));
    }
  } else {
    WEFT_ASSIGN_OR_RETURN(frozen, Freeze(inputs, cost));
    WEFT_RETURN_IF_ERROR(ChooseTransfers(inputs, cost, options.notes));
    WEFT_RETURN_IF_ERROR(ResolveReshard(inputs, cost, options.evaluation, options.notes));
    WEFT_ASSIGN_OR_RETURN(program, CompileSynchronous(inputs, cost, options.evaluation, &layers_per_stage));
  }
  WEFT_RETURN_IF_ERROR(CheckSwitchCollectives(program, inputs.cluster));
  WEFT_RETURN_IF_ERROR(ApplyOffload(inputs, &program, options.notes));
  if (options.notes != nullptr) {
    AddPlanNotes(recipe, plan, program, inputs.cluster.device(), layers_per_stage, options.notes);
  }
  if (inputs.plan.post_validation()) WEFT_RETURN_IF_ERROR(PostValidate(&program));
  if (absl::Status fits = CheckMemoryFit(program, inputs.cluster); !fits.ok()) {
    if (!options.allow_oom) {
      if (!options.ways_out) return fits;
      return WithWaysOut(fits, program, recipe, plan, inputs, options.on_try);
    }
    if (options.unfit != nullptr) {
      *options.unfit = std::string(fits.message());
    } else if (options.notes != nullptr) {
      options.notes->push_back(std::string(fits.message()));
    }
    program.set_does_not_fit(true);
    if (program.has_evaluation()) program.mutable_evaluation()->set_does_not_fit(true);
  }
  inputs.on_phase("proving");
  VerifyOptions verify;
  verify.allow_unfit = options.allow_oom;
  verify.algorithms = KnownCollectives();
  WEFT_RETURN_IF_ERROR(WithTransferOrder(inputs.plan, VerifyProgram(program, verify)));
  if (frozen && options.notes != nullptr) {
    WEFT_ASSIGN_OR_RETURN(std::string note, NoteOfFreezing(*frozen, program, inputs));
    options.notes->push_back(std::move(note));
  }
  return program;
}

absl::StatusOr<std::string> EmitIr(const ModelGraph& model, const Recipe& recipe, const Plan& plan,
                                   const Cluster& cluster, absl::string_view level, const std::string& cost_model) {
  if (level == "program") {
    CompileOptions options;
    options.allow_oom = true;
    options.cost = cost_model;
    WEFT_ASSIGN_OR_RETURN(Program program, Compile(model, recipe, plan, cluster, options));
    return MessageToText(program);
  }
  WEFT_ASSIGN_OR_RETURN(PlanInputs inputs, ResolveInputs(model, recipe, plan, cluster, nullptr));
  inputs.cost = cost_model;
  if (inputs.asynchronous && level == "rank") {
    return absl::InvalidArgumentError(absl::StrCat("schedule '", inputs.plan.schedule().name(),
                                                   "' updates the weights without a flush; its programs have no rank "
                                                   "level; allowed: graph, program"));
  }
  CompileContext context;
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (level == "graph") {
    ImportOptions import;
    import.precision = inputs.plan.precision();
    import.accumulation = inputs.plan.accumulation();
    import.loss_scale = inputs.plan.loss_scale();
    WEFT_ASSIGN_OR_RETURN(ImportedGraph graph, ImportGraph(&context.mlir, inputs.model, inputs.recipe, import));
    graph.module->print(stream);
    return stream.str();
  }
  if (level == "rank") {
    WEFT_ASSIGN_OR_RETURN(StepCost cost, CostsOf(inputs));
    WEFT_RETURN_IF_ERROR(ResolveRecompute(inputs, cost, nullptr));
    WEFT_RETURN_IF_ERROR(Freeze(inputs, cost).status());
    WEFT_RETURN_IF_ERROR(ChooseTransfers(inputs, cost, nullptr));
    WEFT_RETURN_IF_ERROR(ResolveReshard(inputs, cost, false, nullptr));
    WEFT_ASSIGN_OR_RETURN(RankLevel training, LowerTraining(context, inputs, cost));
    training.module->print(stream);
    return stream.str();
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown level of IR '", level, "'; known: graph, rank, program"));
}

}  // namespace weft
