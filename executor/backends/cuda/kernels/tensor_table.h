// Launches for many tensors: a table of the tensors in device memory, and how blocks share their elements.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TENSOR_TABLE_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TENSOR_TABLE_H_

#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// Elements of one tensor that a block takes at a time. A tensor's last tile may be shorter.
inline constexpr int64_t kTileElements = 2048;

inline int64_t TilesOf(int64_t elements) { return (elements + kTileElements - 1) / kTileElements; }

// A table of tensors, each described by a T, which has a field `elements`. If `tensors` is null, the launch is for one
// tensor, and the launch's struct describes that tensor itself.
template <typename T>
struct TensorTable {
  // Arrays of `count` entries on the device: the tensors, and the number of tiles up to and including each tensor.
  const T* tensors = nullptr;
  const int64_t* ends = nullptr;
  int64_t count = 0;
  int64_t tiles = 0;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TENSOR_TABLE_H_
