// Many tensors in one launch: a table of them in memory of the device, and how blocks share their elements.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TENSOR_TABLE_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TENSOR_TABLE_H_

#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// Elements of one tensor that a block takes at a time. A tensor's last tile may be shorter.
inline constexpr int64_t kTileElements = 2048;

inline int64_t TilesOf(int64_t elements) { return (elements + kTileElements - 1) / kTileElements; }

// T is what a launch has of each tensor; it has `elements`. Null: the launch is of one, which it holds itself.
template <typename T>
struct TensorTable {
  // `count` of each on the device: the tensors, and the number of tiles up to and with each.
  const T* tensors = nullptr;
  const int64_t* ends = nullptr;
  int64_t count = 0;
  int64_t tiles = 0;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TENSOR_TABLE_H_
