// A program as a framework runs it: the same work in another order.
#ifndef WEFT_SIMULATOR_RUNTIME_AS_RUN_BY_H_
#define WEFT_SIMULATOR_RUNTIME_AS_RUN_BY_H_

#include <optional>

#include "absl/types/span.h"
#include "proto/program.pb.h"
#include "proto/runtime.pb.h"

namespace weft::sim {

// On devices of these compute capabilities, the first that of the cluster's own device, which decides how activations
// are gathered; each of the others, like the first, may be one on which weights are cast once (weight_casts.h). Nothing
// if the framework's order is the program's. For costing alone: it is not proven again, and never run.
std::optional<Program> AsRunBy(const Runtime& runtime, absl::Span<const int> capabilities, const Program& program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_AS_RUN_BY_H_
