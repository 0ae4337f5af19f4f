// Saved activations that wait in host memory for their backward (docs/offload.md).
#ifndef WEFT_COMPILER_OFFLOAD_ACTIVATIONS_H_
#define WEFT_COMPILER_OFFLOAD_ACTIVATIONS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "proto/program.pb.h"

namespace weft {

// A floating-point tensor in the operand `saved` of a stage's segments, and the layer that made it.
struct SavedValue {
  int64_t offset = 0;
  DType dtype = DTYPE_UNSPECIFIED;
  int64_t elements = 0;
  int32_t layer = 0;
};

// Rewrites a compiled program so that what the first `layers` layers of each stage saved (`saved`, by stage) goes to
// host memory behind the forward and comes back before the backward. Where the backward is one of the next two
// compute actions it stays on the device. InvalidArgument if the program is of a kind that this does not support.
absl::Status OffloadActivations(const std::vector<std::vector<SavedValue>>& saved, int layers, Program* program);

}  // namespace weft

#endif  // WEFT_COMPILER_OFFLOAD_ACTIVATIONS_H_
