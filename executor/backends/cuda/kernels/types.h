// What launches of kernels are described with: plain values, so that both sides of a launch can include it.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TYPES_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TYPES_H_

#include <stdint.h>

namespace weft::exec::cuda {

// How elements are stored; values as in proto DType.
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

// Sixteen bytes at a time: what the memory system likes.
struct Words {
  uint32_t word[4];
};

// Dense elements in memory of the device, aligned to 64 bytes. Optional arrays are null.
struct Array {
  void* data = nullptr;
  Type type = Type::kNone;
};

// In place of a stream: what is launched on it does not run, its code is brought to the device. Otherwise that happens
// at the first launch, where the device may first wait for all that it runs, among it kernels that wait for another
// rank.
inline char load_only;
inline void* LoadOnly() { return &load_only; }

// Of a launch: null if it was enqueued, else why not. The text lives until the thread's next launch.
using Outcome = const char*;

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TYPES_H_
