// weft's own executor as a runtime: what is predicted where no other framework is named.
#ifndef WEFT_SIMULATOR_OWN_RUNTIME_H_
#define WEFT_SIMULATOR_OWN_RUNTIME_H_

#include "absl/status/statusor.h"
#include "proto/runtime.pb.h"

namespace weft::sim {

// catalog/runtimes/weft.textproto, which is compiled in.
absl::StatusOr<Runtime> OwnRuntime();

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_OWN_RUNTIME_H_
