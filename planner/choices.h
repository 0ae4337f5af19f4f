// What a plan leaves to the compiler, chosen by arenas and simulated times: recompute, the order of a frozen schedule,
// the place of transfers. Each rewrites the plan into one that says it.
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

namespace weft::planner {

// InvalidArgument if recompute, in a mode that asks for a choice, cannot be chosen for this schedule.
absl::Status CheckChosenRecompute(const PlanInputs& inputs);

// Replaces modes of recompute that ask for a choice (choose_recompute.h). The partition stays that of the first
// candidate.
absl::Status ResolveRecompute(PlanInputs& inputs, const StepCost& cost, std::vector<std::string>* notes);

// With plan.schedule.freeze, replaces a message-driven schedule by the order of a simulated step of it, as a
// definition. A message-driven step cannot have collectives in its stages: with mesh axes x, y, z and ZeRO 2 or 3 it is
// simulated without these. Ranks that choose while running cannot promise an order of all their messages; where the
// plan asks for one, the step is simulated without it. Returns nothing if there is nothing to freeze.
absl::StatusOr<std::optional<FrozenSchedule>> Freeze(PlanInputs& inputs, const StepCost& cost);

// What `program`, proven, gained or lost by having been frozen.
absl::StatusOr<std::string> NoteOfFreezing(const FrozenSchedule& frozen, const Program& program,
                                           const PlanInputs& inputs);

// Replaces FASTEST by whichever placement and grouping of transfers simulates fastest; those that the verifier refuses
// do not count. Ties go to the first: early, then without groups.
absl::Status ChooseTransfers(PlanInputs& inputs, const StepCost& cost, std::vector<std::string>* notes);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_CHOICES_H_
