// Makes the choices that a plan leaves to the compiler: recompute, the order of a frozen schedule, the placement of
// transfers. Arenas and simulated times decide. Each function rewrites the plan so that it states the choice.
#ifndef WEFT_PLANNER_CHOICES_H_
#define WEFT_PLANNER_CHOICES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/inputs/plan_inputs.h"
#include "compiler/segments/segment_set.h"
#include "planner/freeze_schedule.h"
#include "proto/program.pb.h"
#include "proto/runtime.pb.h"

namespace weft::planner {

// Returns InvalidArgument if the mode of recompute asks for a choice that cannot be made for this schedule.
absl::Status CheckChosenRecompute(const PlanInputs& inputs);

// Replaces a mode of recompute that asks for a choice (choose_recompute.h). The choice depends on the memory that the
// program takes under `runtime`; null = weft's own executor. All candidates, and the plan, get the partition of the
// first candidate.
absl::Status ResolveRecompute(PlanInputs& inputs, const StepCost& cost, const Runtime* runtime,
                              std::vector<std::string>* notes);

// If plan.schedule.freeze is set, replaces a message-driven schedule by a definition with the order of one simulated
// step. The simulated plan differs from the given one in three points. A message-driven step cannot have collectives in
// its stages, so mesh axes x, y, z and ZeRO are left out if the plan has such collectives. Offload is left out. Ranks
// that choose their order at run time cannot promise an order of all their messages, so the transfer order that the
// plan sets may be left out too. Returns nothing if there is nothing to freeze.
absl::StatusOr<std::optional<FrozenSchedule>> Freeze(PlanInputs& inputs, const StepCost& cost);

// Returns a note with the time of a message-driven step and the simulated time of `program`, which has the frozen order
// and is proven.
absl::StatusOr<std::string> NoteOfFreezing(const FrozenSchedule& frozen, const Program& program,
                                           const PlanInputs& inputs);

// If the plan asks for FASTEST, replaces it by the placement and grouping of transfers with the shortest simulated
// time. Choices that the verifier refuses are not considered. Ties go to a choice without groups, then to the earlier
// choice.
absl::Status ChooseTransfers(PlanInputs& inputs, const StepCost& cost, std::vector<std::string>* notes);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_CHOICES_H_
