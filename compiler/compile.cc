#include "compiler/compile.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/import_graph.h"
#include "compiler/inputs/plan_check.h"
#include "compiler/inputs/plan_inputs.h"
#include "compiler/inputs/plan_notes.h"
#include "compiler/lower_program.h"
#include "compiler/memory_fit.h"
#include "compiler/rewrite/post_validation.h"
#include "proto/io/io.h"
#include "proto/util/status.h"
#include "schedules/collective/plan.h"
#include "verifier/verify.h"

namespace weft {
int64_t PlannedDeviceBytes(const Program& program) {
  int64_t most = 0;
  for (const Template& t : program.templates()) most = std::max(most, t.device_arena_bytes());
  for (const Template& t : program.evaluation().templates()) most = std::max(most, t.device_arena_bytes());
  return most;
}

absl::Status CheckNoChoiceIsOpen(const PlanInputs& inputs) {
  const Plan& plan = inputs.plan;
  const auto open = [](absl::string_view field) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " leaves a choice open; call planner::Resolve first to make the choice"));
  };
  if (plan.recompute().mode() == Recompute::FIT) return open("plan.recompute.mode = FIT");
  if (plan.recompute().mode() == Recompute::INTERVAL && plan.recompute().interval() == 0) {
    return open("plan.recompute.interval = 0");
  }
  // A schedule without a flush has neither transfers to place nor layers to reshard.
  if (inputs.asynchronous) return absl::OkStatus();
  if (plan.schedule().freeze() && inputs.schedule.message_driven) return open("plan.schedule.freeze = true");
  if (plan.transfer_placement() == FASTEST) return open("plan.transfer_placement = FASTEST");
  if (plan.zero().reshard() == Zero::BY_BENEFIT) return open("plan.zero.reshard = BY_BENEFIT");
  return absl::OkStatus();
}

absl::StatusOr<Program> Compile(const PlanInputs& resolved, const CompileOptions& options) {
  WEFT_RETURN_IF_ERROR(CheckNoChoiceIsOpen(resolved));
  PlanInputs inputs = resolved;
  inputs.cost = options.cost;
  if (options.on_phase != nullptr) inputs.on_phase = options.on_phase;
  WEFT_ASSIGN_OR_RETURN(StepCost cost, CostsOf(inputs));
  std::vector<int32_t> layers_per_stage;
  WEFT_ASSIGN_OR_RETURN(Program program, LowerPlan(inputs, cost, options.evaluation,
                                                   inputs.asynchronous ? nullptr : &layers_per_stage, options.notes));
  if (inputs.asynchronous && options.evaluation && options.notes != nullptr) {
    options.notes->push_back(
        absl::StrCat("schedule '", program.schedule(),
                     "' updates the weights without a flush, so the program has no evaluation program"));
  }
  if (options.notes != nullptr) {
    AddPlanNotes(inputs.asked_recipe, inputs.asked_plan, program, inputs.cluster.device(), layers_per_stage,
                 options.notes);
  }
  if (inputs.plan.post_validation()) WEFT_RETURN_IF_ERROR(PostValidate(&program));
  if (absl::Status fits = CheckMemoryFit(program, inputs.cluster); !fits.ok()) {
    if (!options.allow_oom) return options.on_unfit == nullptr ? fits : options.on_unfit(fits, program);
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
  if (const std::vector<Finding> findings = FindViolations(program, verify); !findings.empty()) {
    const absl::Status refusal = RefusalOf(program, findings);
    return findings.front().rule == kDeadlockRule ? WithTransferOrder(inputs.plan, refusal) : refusal;
  }
  return program;
}

absl::StatusOr<Program> Compile(const ModelGraph& model, const Recipe& recipe, const Plan& plan, const Cluster& cluster,
                                const CompileOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const PlanInputs inputs, ResolveInputs(model, recipe, plan, cluster, options.notes));
  return Compile(inputs, options);
}

absl::StatusOr<std::string> EmitIr(const PlanInputs& inputs, absl::string_view level) {
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
    WEFT_RETURN_IF_ERROR(CheckNoChoiceIsOpen(inputs));
    WEFT_ASSIGN_OR_RETURN(StepCost cost, CostsOf(inputs));
    WEFT_ASSIGN_OR_RETURN(RankLevel training, LowerTraining(context, inputs, cost));
    training.module->print(stream);
    return stream.str();
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown level of IR '", level, "'; known: graph, rank, program"));
}

}  // namespace weft
