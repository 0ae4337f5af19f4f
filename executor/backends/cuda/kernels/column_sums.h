// Sums over rows: gradients of biases, of weights of norms, and of what was added to all rows of a sample.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMN_SUMS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMN_SUMS_H_

#include "executor/backends/cuda/kernels/types.h"

namespace weft::cuda {

// For each of `segments` runs of `rows` rows, and each column:
//   plain    = sum of dy
//   products = sum of dy (x - mean) rstd, with mean 0 and rstd 1 where there are none
// The results of segment s begin at s * stride of their arrays. Null results are not made; x goes with `products`.
struct ColumnSums {
  Array dy, x;
  // One for each row; or for so many rows and each of `groups` equal runs of columns, where both are given.
  Array mean, rstd;
  int64_t rows_of_statistic = 1, groups = 1;
  Array plain, products;
  int64_t plain_offset = 0, products_offset = 0;
  int64_t stride = 0;
  int64_t segments = 1;
  int64_t rows = 0;
  int64_t columns = 0;
  bool accumulate = false;
  bool in_double = false;
  // ScratchBytes() of them.
  void* scratch = nullptr;

  // Rows are summed in so many chunks, whose sums are added in order: depends on the shape only.
  int64_t Chunks() const;
  int64_t ScratchBytes() const { return segments * Chunks() * 2 * columns * (in_double ? 8 : 4); }
};
Outcome Launch(const ColumnSums& sums, void* stream);

}  // namespace weft::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMN_SUMS_H_
