// Moves optimizer states to host memory and brings them to the device bucket by bucket (docs/offload.md).
//
// Source: Singh and Bhatele 2022, "AxoNN", arXiv:2110.13005, sec. IV-B and V.
#ifndef WEFT_COMPILER_REWRITE_OFFLOAD_OPTIMIZER_H_
#define WEFT_COMPILER_REWRITE_OFFLOAD_OPTIMIZER_H_

#include "absl/status/status.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"

namespace weft {

// Rewrites a compiled program whose optimizer works on the device into one whose optimizer states are in host memory.
// The sums of gradients stay as they are. A bucket that needs no global norm waits only for the sums of its own
// tensors. `bucket_elements` must be set. InvalidArgument if the program is of an unsupported kind.
absl::Status OffloadOptimizer(const Offload& offload, Program* program);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_OFFLOAD_OPTIMIZER_H_
