#include "planner/compile.h"

#include <utility>

#include "compiler/lower_program.h"
#include "planner/choices.h"
#include "planner/resolve_reshard.h"
#include "planner/try_remedies.h"
#include "proto/io/io.h"
#include "proto/util/status.h"

namespace weft::planner {

absl::StatusOr<Choices> Resolve(PlanInputs& inputs, bool evaluation, const Runtime* runtime,
                                std::vector<std::string>* notes) {
  WEFT_ASSIGN_OR_RETURN(const StepCost cost, CostsOf(inputs));
  WEFT_RETURN_IF_ERROR(ResolveRecompute(inputs, cost, runtime, notes));
  Choices choices;
  if (inputs.asynchronous) return choices;
  WEFT_ASSIGN_OR_RETURN(choices.frozen, Freeze(inputs, cost));
  WEFT_RETURN_IF_ERROR(ChooseTransfers(inputs, cost, notes));
  WEFT_RETURN_IF_ERROR(ResolveReshard(inputs, cost, evaluation, notes));
  return choices;
}

absl::StatusOr<Program> CompilePlan(const ModelGraph& model, const Recipe& recipe, const Plan& plan,
                                    const Cluster& cluster, const CompileOptions& options) {
  WEFT_ASSIGN_OR_RETURN(PlanInputs inputs, ResolveInputs(model, recipe, plan, cluster, options.notes));
  inputs.cost = options.cost;
  if (options.on_phase != nullptr) inputs.on_phase = options.on_phase;
  WEFT_ASSIGN_OR_RETURN(const Choices choices, Resolve(inputs, options.evaluation, options.runtime, options.notes));
  weft::CompileOptions compile = options;
  if (options.remedies) {
    compile.on_unfit = [&](const absl::Status& refusal, const Program& program) {
      return WithRemedies(refusal, program, recipe, plan, inputs, options.on_try);
    };
  }
  WEFT_ASSIGN_OR_RETURN(Program program, weft::Compile(inputs, compile));
  if (choices.frozen && options.notes != nullptr) {
    WEFT_ASSIGN_OR_RETURN(std::string note, NoteOfFreezing(*choices.frozen, program, inputs));
    options.notes->push_back(std::move(note));
  }
  return program;
}

absl::StatusOr<std::string> EmitIr(const ModelGraph& model, const Recipe& recipe, const Plan& plan,
                                   const Cluster& cluster, absl::string_view level, const std::string& cost) {
  if (level == "program") {
    CompileOptions options;
    options.allow_oom = true;
    options.cost = cost;
    WEFT_ASSIGN_OR_RETURN(const Program program, CompilePlan(model, recipe, plan, cluster, options));
    return MessageToText(program);
  }
  WEFT_ASSIGN_OR_RETURN(PlanInputs inputs, ResolveInputs(model, recipe, plan, cluster, nullptr));
  inputs.cost = cost;
  if (inputs.asynchronous && level == "rank") {
    return absl::InvalidArgumentError(absl::StrCat("schedule '", inputs.plan.schedule().name(),
                                                   "' updates the weights without a flush; its programs have no rank "
                                                   "level; allowed: graph, program"));
  }
  if (level == "rank")
    WEFT_RETURN_IF_ERROR(Resolve(inputs, /*evaluation=*/true, /*runtime=*/nullptr, nullptr).status());
  return weft::EmitIr(inputs, level);
}

}  // namespace weft::planner
