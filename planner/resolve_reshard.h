// Resolves plan.zero.reshard = BY_BENEFIT: compiles and simulates what choose_reshard.h asks for.
#ifndef WEFT_PLANNER_RESOLVE_RESHARD_H_
#define WEFT_PLANNER_RESOLVE_RESHARD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/inputs/plan_inputs.h"
#include "compiler/segments/segment_set.h"

namespace weft::planner {

// Replaces BY_BENEFIT in the plan. All else that is chosen (recompute, partition, transfers) must be resolved before
// it. `evaluation`: whether the program will have one, which counts for its memory.
absl::Status ResolveReshard(PlanInputs& inputs, const StepCost& cost, bool evaluation, std::vector<std::string>* notes);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_RESOLVE_RESHARD_H_
