// How many bytes the states of a model take on a device at least, told from the plan alone: what is hopeless need not
// be compiled.
#ifndef WEFT_PLANNER_LEAST_STATE_BYTES_H_
#define WEFT_PLANNER_LEAST_STATE_BYTES_H_

#include <cstdint>

#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace weft::planner {

// Parameters, the copy that the optimizer updates, and its moments, cut over all ranks that may hold parts of them: no
// program of this plan has a smaller arena on its fullest rank. Gradients are left out: how long they live is decided
// later. `plan.precision` has its defaults filled in; `parameters` are the model's. Saturates.
int64_t LeastStateBytes(const Recipe& recipe, const Plan& plan, int64_t parameters);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_LEAST_STATE_BYTES_H_
