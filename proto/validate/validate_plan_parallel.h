// Validates the plan fields that cut one microbatch or one copy of the model over ranks: mesh axes x, y, z, sequence
// parallelism, ZeRO, and what goes with them (overlap, offload).
#ifndef WEFT_PROTO_VALIDATE_VALIDATE_PLAN_PARALLEL_H_
#define WEFT_PROTO_VALIDATE_VALIDATE_PLAN_PARALLEL_H_

#include "absl/status/status.h"
#include "proto/plan.pb.h"

namespace weft {

// Checks the ranges of these fields, and how they agree with the mesh. The mesh must be valid.
absl::Status ValidateParallelism(const Plan& plan);

}  // namespace weft

#endif  // WEFT_PROTO_VALIDATE_VALIDATE_PLAN_PARALLEL_H_
