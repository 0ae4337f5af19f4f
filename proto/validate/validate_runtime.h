// Checks a runtime before anything is predicted with it.
#ifndef WEFT_PROTO_VALIDATE_VALIDATE_RUNTIME_H_
#define WEFT_PROTO_VALIDATE_VALIDATE_RUNTIME_H_

#include "absl/status/status.h"
#include "proto/plan.pb.h"
#include "proto/runtime.pb.h"

namespace weft {

// Errors begin with the field: "runtime.kernels[2].bytes = -1 must be ...".
absl::Status Validate(const Runtime& runtime);

// Returns `base` with the settings of `runtime` over it.
Runtime Derived(const Runtime& base, const Runtime& runtime);

// Returns `plan` with the runtime's settings for the fields that the plan leaves unset, except settings that do not
// apply with the plan's mesh and ZeRO stage.
Plan PlanUnder(const Runtime& runtime, const Plan& plan);

}  // namespace weft

#endif  // WEFT_PROTO_VALIDATE_VALIDATE_RUNTIME_H_
