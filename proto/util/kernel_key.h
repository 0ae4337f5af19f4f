// A text with everything that the duration of a step on a device depends on: kernel, types, options and shapes.
// Measured durations are stored and looked up under this key (KernelRate.kernel). kernels/kernel_key.h makes it.
//
//   KERNEL types[ option]... extents
//   MATMUL bf16*3>bf16 tb 16384x4800x1600          rows, columns and depth
//   ATTENTION bf16>bf16,fp32 causal 16x1024x25x25x64   sequences, their length, heads, heads of k and v, head size
//   LAYER_NORM bf16*3>bf16,fp32*2 16384x1600,1600,16384   the shapes of its tensors, each as it first occurs
//   ADAMW fp32*4>fp32*3,bf16 1600x6400
#ifndef WEFT_PROTO_UTIL_KERNEL_KEY_H_
#define WEFT_PROTO_UTIL_KERNEL_KEY_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace weft {

// The parts of a key. `form` is everything except the extents.
struct KernelKeyParts {
  absl::string_view kernel;
  absl::string_view form;
  std::vector<int64_t> extents;
};

// Returns false if the text is not a key: it has fewer than three parts, or its extents are not positive numbers.
bool ParseKernelKey(absl::string_view key, KernelKeyParts* parts);

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_KERNEL_KEY_H_
