// Sizes of elements and workspaces for cuBLASLt and cuDNN.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_LIBRARY_BYTES_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_LIBRARY_BYTES_H_

#include <cstdint>

#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// Bytes of an element of a floating-point type.
inline int64_t BytesOf(Type type) { return type == Type::kFp64 ? 8 : type == Type::kFp32 ? 4 : 2; }

// Rounds up to a multiple of 256, the alignment of the libraries' workspaces.
inline int64_t Aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_LIBRARY_BYTES_H_
