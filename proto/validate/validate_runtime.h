// Checks of a runtime before anything is predicted with it.
#ifndef WEFT_PROTO_VALIDATE_VALIDATE_RUNTIME_H_
#define WEFT_PROTO_VALIDATE_VALIDATE_RUNTIME_H_

#include "absl/status/status.h"
#include "proto/plan.pb.h"
#include "proto/runtime.pb.h"

namespace weft {

// Errors begin with the field: "runtime.kernels[2].bytes = -1 must be ...".
absl::Status Validate(const Runtime& runtime);

// What `runtime` says, over what `base` says.
Runtime Derived(const Runtime& base, const Runtime& runtime);

// `plan` with what the runtime does where `plan` is silent, but for what its mesh and ZeRO stage leave no room for.
Plan PlanUnder(const Runtime& runtime, const Plan& plan);

}  // namespace weft

#endif  // WEFT_PROTO_VALIDATE_VALIDATE_RUNTIME_H_
