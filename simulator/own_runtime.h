// weft's own executor as a runtime: the runtime of predictions that name no other framework.
#ifndef WEFT_SIMULATOR_OWN_RUNTIME_H_
#define WEFT_SIMULATOR_OWN_RUNTIME_H_

#include "absl/status/statusor.h"
#include "proto/runtime.pb.h"

namespace weft::sim {

// Returns catalog/runtimes/weft.textproto, which is compiled into the binary.
absl::StatusOr<Runtime> OwnRuntime();

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_OWN_RUNTIME_H_
