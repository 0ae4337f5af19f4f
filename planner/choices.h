// Makes choices that a plan leaves to the compiler, by arenas and simulated times: recompute, the order of a frozen
// schedule, the placement of transfers. Each function rewrites the plan so that it states the choice.
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

// Replaces modes of recompute that ask for a choice (choose_recompute.h), by the memory that the program takes under
// `runtime`; null = weft's own executor. The partition becomes that of the first candidate.
absl::Status ResolveRecompute(PlanInputs& inputs, const StepCost& cost, const Runtime* runtime,
                              std::vector<std::string>* notes);

// With plan.schedule.freeze, replaces a message-driven schedule by a definition: the order of one simulated step. A
// message-driven step cannot have collectives in its stages, so a plan with mesh axes x, y, z or ZeRO 2 or 3 is
// simulated without them. Offload is left out too. Ranks that choose their order at run time cannot promise an order of
// all their messages, so the step may be simulated without the transfer order that the plan sets. Returns nothing if
// there is nothing to freeze.
absl::StatusOr<std::optional<FrozenSchedule>> Freeze(PlanInputs& inputs, const StepCost& cost);

// Returns a note with the time of a message-driven step and the simulated time of `program`, which has the frozen order
// and is proven.
absl::StatusOr<std::string> NoteOfFreezing(const FrozenSchedule& frozen, const Program& program,
                                           const PlanInputs& inputs);

// Replaces FASTEST by the placement and grouping of transfers that simulates fastest. Choices that the verifier refuses
// do not count. Ties go to a choice without groups, then to an early one.
absl::Status ChooseTransfers(PlanInputs& inputs, const StepCost& cost, std::vector<std::string>* notes);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_CHOICES_H_
