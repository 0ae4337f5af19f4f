// Resolves plan.zero.reshard = BY_BENEFIT: compiles and simulates the candidates of choose_reshard.h.
#ifndef WEFT_PLANNER_RESOLVE_RESHARD_H_
#define WEFT_PLANNER_RESOLVE_RESHARD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/inputs/plan_inputs.h"
#include "compiler/segments/segment_set.h"

namespace weft::planner {

// Replaces BY_BENEFIT in the plan. All other choices (recompute, partition, transfers) must be resolved before.
// `evaluation`: true if the program will have an evaluation, which then counts for its memory.
absl::Status ResolveReshard(PlanInputs& inputs, const StepCost& cost, bool evaluation, std::vector<std::string>* notes);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_RESOLVE_RESHARD_H_
