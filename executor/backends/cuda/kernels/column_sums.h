// Sums over rows: gradients of biases, of weights of norms, and of what was added to all rows of a sample.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMN_SUMS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMN_SUMS_H_

#include "executor/backends/cuda/kernels/elementwise.h"
#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// Sums of a chunk lie one behind the other in scratch: plain, products, beside.
inline constexpr int kColumnResults = 3;

// For each of `segments` runs of `rows` rows, and each column:
//   plain    = sum of dy
//   products = sum of dy (x - mean) rstd, with mean 0 and rstd 1 where there are none
// The results of segment s begin at s * stride of their arrays. Null results are not made; x goes with `products`.
// With `made` dy is what becomes of it and x as `make` says, is written there, and is summed up as it is stored there.
struct ColumnSums {
  Array dy, x;
  Array made;
  // kGeluBackward or kGeluTanhBackward; with `plain` alone and one segment.
  ElementwiseOp make = ElementwiseOp::kGeluBackward;
  // One for each row; or for so many rows and each of `groups` equal runs of columns, where both are given.
  Array mean, rstd;
  int64_t rows_of_statistic = 1, groups = 1;
  Array plain, products;
  int64_t plain_offset = 0, products_offset = 0;
  // Of what a launch makes that has a third sum (norm.h), and whether it is added to what is there.
  Array beside;
  bool accumulate_beside = false;
  int64_t stride = 0;
  int64_t segments = 1;
  int64_t rows = 0;
  int64_t columns = 0;
  bool accumulate = false;
  bool in_double = false;
  // ScratchBytes() of them.
  void* scratch = nullptr;

  // Rows are summed in chunks of so many, of so many, whose sums are added in order: depends on the shape only.
  int64_t RowsOfChunk() const;
  int64_t Chunks() const;
  int64_t ScratchBytes() const { return segments * Chunks() * kColumnResults * columns * (in_double ? 8 : 4); }
};
Outcome Launch(const ColumnSums& sums, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMN_SUMS_H_
