// Computes, from the plan alone, a lower bound on the bytes that a model's states take on a device. If the bound does
// not fit, the plan need not be compiled.
#ifndef WEFT_PLANNER_LEAST_STATE_BYTES_H_
#define WEFT_PLANNER_LEAST_STATE_BYTES_H_

#include <cstdint>

#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace weft::planner {

// Returns the bytes of the parameters, of the copy that the optimizer updates, and of its moments, divided by all ranks
// that may hold parts of them. In every program of this plan, the arena of the fullest rank is at least that large.
// Gradients are left out, because their lifetime is decided later. The defaults of `plan.precision` must be filled in;
// `parameters` is the model's number of parameters. Saturates.
int64_t LeastStateBytes(const Recipe& recipe, const Plan& plan, int64_t parameters);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_LEAST_STATE_BYTES_H_
