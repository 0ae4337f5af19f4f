// A program as a framework runs it: the same work in another order.
#ifndef WEFT_SIMULATOR_RUNTIME_AS_RUN_BY_H_
#define WEFT_SIMULATOR_RUNTIME_AS_RUN_BY_H_

#include <optional>

#include "absl/types/span.h"
#include "proto/program.pb.h"
#include "proto/runtime.pb.h"

namespace weft::sim {

// Returns the program as `runtime` runs it on devices of these compute capabilities; nullopt if the framework's order
// is the program's order. The first capability is that of the cluster's own device, which decides how activations are
// gathered. Weights are cast once if any of the devices casts them once (weight_casts.h). The result is for costing
// only: it is not proven again and never run.
std::optional<Program> AsRunBy(const Runtime& runtime, absl::Span<const int> capabilities, const Program& program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_AS_RUN_BY_H_
