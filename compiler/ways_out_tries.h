// The compilations by which ways out of a plan that does not fit are found (ways_out.h).
#ifndef WEFT_COMPILER_WAYS_OUT_TRIES_H_
#define WEFT_COMPILER_WAYS_OUT_TRIES_H_

#include "absl/status/status.h"
#include "compiler/plan_inputs.h"
#include "compiler/ways_out.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "proto/recipe.pb.h"

namespace weft {

// `refusal` and what to change: `refused` is the program that does not fit, of `recipe` and `plan` as the user gave
// them, which came to `inputs`. Every change that is named was compiled and fits.
absl::Status WithWaysOut(const absl::Status& refusal, const Program& refused, const Recipe& recipe, const Plan& plan,
                         const PlanInputs& inputs, const OnTry& on_try);

}  // namespace weft

#endif  // WEFT_COMPILER_WAYS_OUT_TRIES_H_
