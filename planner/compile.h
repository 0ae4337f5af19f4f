// Compiles a plan as a user writes it: makes the choices that it leaves open, then compiles it, and if it does not fit
// says which changes make it fit.
#ifndef WEFT_PLANNER_COMPILE_H_
#define WEFT_PLANNER_COMPILE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/compile.h"
#include "planner/freeze_schedule.h"
#include "planner/remedies.h"

namespace weft::planner {

struct CompileOptions : weft::CompileOptions {
  // A refusal of a program that does not fit names changes with which it does (remedies.h). This costs some
  // compilations (try_budget.h).
  bool remedies = true;
  // If set, called with what is tried for that, e.g. "--set mbs=2, 3 of at most 40".
  OnTry on_try = nullptr;
};

// What was chosen beside the plan itself.
struct Choices {
  // The order of a message-driven schedule that plan.schedule.freeze asks for.
  std::optional<FrozenSchedule> frozen;
};

// Makes every choice that the plan leaves open, by the arenas and simulated times of candidates: recompute FIT and
// INTERVAL without a number, freeze, transfer_placement FASTEST, reshard BY_BENEFIT. `inputs.plan` then states them.
// `evaluation`: whether the program will have an evaluation, which counts for its memory.
absl::StatusOr<Choices> Resolve(PlanInputs& inputs, bool evaluation, std::vector<std::string>* notes);

// ResolveInputs, Resolve and weft::Compile, with their errors. All messages may be as the user wrote them.
absl::StatusOr<Program> CompilePlan(const ModelGraph& model, const Recipe& recipe, const Plan& plan,
                                    const Cluster& cluster, const CompileOptions& options);

// The IR of a plan as text: `level` is "graph" (the model), "rank" (the planned lists of actions) or "program" (the
// message). `cost` is CompileOptions.cost.
absl::StatusOr<std::string> EmitIr(const ModelGraph& model, const Recipe& recipe, const Plan& plan,
                                   const Cluster& cluster, absl::string_view level,
                                   const std::string& cost = "roofline");

}  // namespace weft::planner

#endif  // WEFT_PLANNER_COMPILE_H_
