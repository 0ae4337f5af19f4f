// Compiles changed plans to find remedies for a plan that does not fit (remedies.h).
#ifndef WEFT_PLANNER_TRY_REMEDIES_H_
#define WEFT_PLANNER_TRY_REMEDIES_H_

#include "absl/status/status.h"
#include "compiler/inputs/plan_inputs.h"
#include "planner/remedies.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "proto/recipe.pb.h"

namespace weft::planner {

// Returns `refusal` with remedies added. `refused` is the program that does not fit; it was compiled from `recipe` and
// `plan` as the user gave them, which resolved to `inputs`. Every change that is named was compiled and fits.
absl::Status WithRemedies(const absl::Status& refusal, const Program& refused, const Recipe& recipe, const Plan& plan,
                          const PlanInputs& inputs, const OnTry& on_try);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_TRY_REMEDIES_H_
