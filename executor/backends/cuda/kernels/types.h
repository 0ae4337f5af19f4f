// Plain values that describe launches of kernels, so that both sides of a launch can include this file.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TYPES_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TYPES_H_

#include <stdint.h>

namespace weft::exec::cuda {

// How elements are stored. The values are those of proto DType.
enum class Type : int32_t {
  kNone = 0,
  kFp64 = 1,
  kFp32 = 2,
  kBf16 = 3,
  kFp16 = 4,
  kInt32 = 5,
  kExact192 = 6,
  kUint8 = 7
};

// Sixteen bytes, the access size that suits the memory system best.
struct Words {
  uint32_t word[4];
};

// Dense elements in device memory. They are aligned to 64 bytes, except in sums for collectives (sum_parts.h). Optional
// arrays are null.
struct Array {
  void* data = nullptr;
  Type type = Type::kNone;
};

// Passed in place of a stream: the kernel does not run, but its code is loaded onto the device. Without this, the first
// launch loads the code, and the device may then first wait for everything that it runs, including kernels that wait
// for another rank.
inline char load_only;
inline void* LoadOnly() { return &load_only; }

// Result of a launch: null if it was enqueued, otherwise the reason. The text is valid until the thread's next launch.
using Outcome = const char*;

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TYPES_H_
