// Compiles a plan as a user writes it. First makes the choices that the plan leaves open. If the program does not fit,
// the error names changes with which it fits.
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
#include "proto/runtime.pb.h"

namespace weft::planner {

struct CompileOptions : weft::CompileOptions {
  // If true, the refusal of a program that does not fit names changes with which it fits (remedies.h). This costs some
  // compilations (try_budget.h).
  bool remedies = true;
  // The framework that will run the program; null = weft's own executor. Recompute is chosen by the memory that this
  // framework needs. The other choices and the fit check assume weft's executor.
  const Runtime* runtime = nullptr;
  // If set, called before each try of a change with its description, e.g. "--set mbs=2, 3 of at most 40".
  OnTry on_try = nullptr;
};

// Choices that the resolved plan does not show.
struct Choices {
  // The frozen order of a message-driven schedule, if plan.schedule.freeze asks for it.
  std::optional<FrozenSchedule> frozen;
};

// Makes every choice that the plan leaves open, by the arenas and simulated times of candidates: recompute FIT and
// INTERVAL without a number, freeze, transfer_placement FASTEST, reshard BY_BENEFIT. `inputs.plan` then states the
// choices. `evaluation`: true if the program will have an evaluation, whose memory the choice of reshard then takes
// into account. `runtime`: as in CompileOptions.
absl::StatusOr<Choices> Resolve(PlanInputs& inputs, bool evaluation, const Runtime* runtime,
                                std::vector<std::string>* notes);

// Runs ResolveInputs, Resolve and weft::Compile, and returns their errors. The messages may be as the user wrote them.
absl::StatusOr<Program> CompilePlan(const ModelGraph& model, const Recipe& recipe, const Plan& plan,
                                    const Cluster& cluster, const CompileOptions& options);

// Returns the IR of a plan as text: `level` is "graph" (the model), "rank" (the planned lists of actions) or "program"
// (the message). `cost` is CompileOptions.cost.
absl::StatusOr<std::string> EmitIr(const ModelGraph& model, const Recipe& recipe, const Plan& plan,
                                   const Cluster& cluster, absl::string_view level,
                                   const std::string& cost = "roofline");

}  // namespace weft::planner

#endif  // WEFT_PLANNER_COMPILE_H_
