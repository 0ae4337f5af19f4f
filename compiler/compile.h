// The compiler: from model, recipe, plan and cluster to a proven program.
//
//   model, recipe -> graph -> stages -> segments (CompileSegments) -+-> signatures -> schedule -> transfers -> sync
//   plan, cluster -> validated, defaults filled --------------------+      -> receives -> memory -> Program -> verified
//
// The program carries a second one for evaluation: forward only, dropout off, on the same persistent buffers.
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
  // The cost model of the durations by which stages are balanced, slots ordered, gathered weights kept and plans
  // simulated where the plan asks for a choice: "roofline" or "tiles". What a program is simulated with later is not
  // bound to it.
  std::string cost = "roofline";
  // Also compile the evaluation program.
  bool evaluation = true;
  // If set, gets what a refusal of a program that does not fit is told with: the refusal, and the program. The status
  // that it returns is returned instead.
  std::function<absl::Status(const absl::Status& refusal, const Program& program)> on_unfit = nullptr;
  // If set, told what is done from then on, again for each candidate of a choice: "building stages", passes of the rank
  // level by name ("plan-memory", those of the evaluation program too), "exporting", "proving".
  std::function<void(absl::string_view)> on_phase = nullptr;
  // If not null, receives what the user should know: one sentence each.
  std::vector<std::string>* notes = nullptr;
  // If not null, receives instead of `notes` why a program that is only marked does not fit.
  std::string* unfit = nullptr;
};

// Compiles a plan that leaves nothing open. InvalidArgument names the field of a plan that leaves a choice to be made
// by simulated times or arenas (planner/compile.h makes it first), or what the passes refuse; FailedPrecondition a
// collective that is left to switches of the network which do not sum; ResourceExhausted a plan that does not fit, with
// what takes the memory.
absl::StatusOr<Program> Compile(const PlanInputs& inputs, const CompileOptions& options);

// Resolves the inputs (plan_inputs.h) and compiles them. All messages may be as the user wrote them.
absl::StatusOr<Program> Compile(const ModelGraph& model, const Recipe& recipe, const Plan& plan, const Cluster& cluster,
                                const CompileOptions& options);

// InvalidArgument names the field of `plan` that leaves a choice open.
absl::Status CheckNoChoiceIsOpen(const PlanInputs& inputs);

// The IR as text: `level` is "graph" (the model) or "rank" (the planned lists of actions, for which no choice may be
// open).
absl::StatusOr<std::string> EmitIr(const PlanInputs& inputs, absl::string_view level);

// Bytes that a rank needs on its device: the highest arena of program and evaluation, without the device's reserve.
int64_t PlannedDeviceBytes(const Program& program);

}  // namespace weft

#endif  // WEFT_COMPILER_COMPILE_H_
