// Elementwise kernels in which one row of an operand serves many rows of the other operand: one row for all, or one per
// sample.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_BROADCAST_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_BROADCAST_H_

#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

enum class BroadcastOp {
  // y = x + e
  kAdd,
  // y = x (1 + e[:columns]) + e[columns:], where e has twice as many columns
  kScaleShift,
  // dx = dy (1 + e[:columns])
  kScale,
};

// Row r of x is combined with row r / rows_per_row of e.
struct Broadcast {
  BroadcastOp op = BroadcastOp::kAdd;
  Array x, e, y;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t rows_per_row = 1;
  bool in_double = false;
};
Outcome Launch(const Broadcast& broadcast, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_BROADCAST_H_
