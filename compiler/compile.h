// The compiler: from model, recipe, plan and cluster to a proven program.
//
//   model, recipe -> graph -> stages -> segments (CompileSegments) -+-> signatures -> schedule -> transfers -> sync
//   plan, cluster -> validated, defaults filled --------------------+      -> receives -> memory -> Program -> verified
//
// The program also holds a second program, for evaluation: forward only, without dropout, on the same persistent
// buffers.
#ifndef WEFT_COMPILER_COMPILE_H_
#define WEFT_COMPILER_COMPILE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/inputs/plan_inputs.h"
#include "proto/cluster.pb.h"
#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "proto/recipe.pb.h"

namespace weft {

struct CompileOptions {
  // A program that does not fit the device is marked (`does_not_fit`) instead of refused.
  bool allow_oom = false;
  // Cost model (sim::DeviceCostModels) for the durations of steps. From these durations the compiler balances stages,
  // orders slots, chooses which gathered weights to keep, and simulates plans if the plan leaves a choice to simulated
  // times. The program may be simulated with another model later.
  std::string cost = "roofline";
  // Also compile the evaluation program.
  bool evaluation = true;
  // If set, called with the refusal and the program if the program does not fit and `allow_oom` is false. Compile then
  // returns the status that this function returns.
  std::function<absl::Status(const absl::Status& refusal, const Program& program)> on_unfit = nullptr;
  // If set, called with the name of each phase when the phase begins. When several candidates are compiled for a
  // choice, the phases repeat for each candidate. Phases are "building stages", the passes of the rank level by name
  // ("plan-memory", also for the evaluation program), "exporting" and "proving".
  std::function<void(absl::string_view)> on_phase = nullptr;
  // If not null, receives notes for the user, one sentence each.
  std::vector<std::string>* notes = nullptr;
  // If not null, receives the reason why the program does not fit, provided that the program is only marked
  // (`allow_oom`). `notes` then does not get the reason.
  std::string* unfit = nullptr;
};

// Compiles a plan that leaves nothing open. InvalidArgument names what the passes refuse, or the field of a plan that
// leaves a choice to simulated times or arenas (planner/compile.h makes that choice first). FailedPrecondition names a
// collective that is left to network switches that cannot sum. ResourceExhausted lists what takes the memory if the
// plan does not fit.
absl::StatusOr<Program> Compile(const PlanInputs& inputs, const CompileOptions& options);

// Resolves the inputs (plan_inputs.h) and compiles them. The arguments may be as the user wrote them.
absl::StatusOr<Program> Compile(const ModelGraph& model, const Recipe& recipe, const Plan& plan, const Cluster& cluster,
                                const CompileOptions& options);

// Returns InvalidArgument, naming the field, if `plan` leaves a choice open.
absl::Status CheckNoChoiceIsOpen(const PlanInputs& inputs);

// Returns the IR as text. `level` is "graph" (the model) or "rank" (the planned lists of actions). Level "rank"
// requires that no choice is open.
absl::StatusOr<std::string> EmitIr(const PlanInputs& inputs, absl::string_view level);

// Bytes that a rank needs on its device: the larger of the arenas of the training and evaluation programs, for the rank
// that needs the most. The device's reserve is not included.
int64_t PlannedDeviceBytes(const Program& program);

}  // namespace weft

#endif  // WEFT_COMPILER_COMPILE_H_
