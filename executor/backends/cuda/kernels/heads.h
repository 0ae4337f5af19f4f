// Where the heads of q, k, v and of tensors made from them lie in memory.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_HEADS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_HEADS_H_

#include "executor/backends/cuda/kernels/types.h"
#include "executor/numerics/device_code.h"

namespace weft::exec::cuda {

// Columns of an array. The columns of head h in row r begin at r * stride + first_column + h * head_step.
struct HeadPart {
  Array array;
  int64_t stride = 0, first_column = 0, head_step = 0;

  WEFT_HOST_DEVICE int64_t Element(int64_t row, int64_t head) const {
    return row * stride + first_column + head * head_step;
  }
};

struct HeadShape {
  // There are `sequences` times `sequence` rows.
  int64_t sequences = 0, sequence = 0;
  int64_t heads = 0, kv_heads = 0;
  // Columns per head.
  int64_t width = 0;

  // Heads of q that share one head of k and v.
  WEFT_HOST_DEVICE int64_t group() const { return heads / kv_heads; }
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_HEADS_H_
