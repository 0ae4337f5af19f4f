// A lower bound of the bytes that a model's states take on a device, from the plan alone. A plan that cannot fit need
// not be compiled.
#ifndef WEFT_PLANNER_LEAST_STATE_BYTES_H_
#define WEFT_PLANNER_LEAST_STATE_BYTES_H_

#include <cstdint>

#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace weft::planner {

// Bytes of the parameters, of the copy that the optimizer updates, and of its moments, cut over all ranks that may hold
// parts of them. No program of this plan has a smaller arena on its fullest rank. Gradients are left out, because their
// lifetime is decided later. `plan.precision` has its defaults filled in; `parameters` is the model's number of
// parameters. Saturates.
int64_t LeastStateBytes(const Recipe& recipe, const Plan& plan, int64_t parameters);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_LEAST_STATE_BYTES_H_
