// Exchanges the two inner axes of a tensor, for weights of convolutions that cuDNN reads or writes.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_SWAP_AXES_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_SWAP_AXES_H_

#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// y[o, j, i] = x[o, i, j] for x [outer, rows, columns]. x and y have the same type and do not overlap.
struct SwapAxes {
  Array x, y;
  int64_t outer = 0, rows = 0, columns = 0;
};
Outcome Launch(const SwapAxes& swap, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_SWAP_AXES_H_
