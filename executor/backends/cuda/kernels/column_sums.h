// Sums over rows: gradients of biases, of weights of norms, and of vectors added to all rows of a sample.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMN_SUMS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMN_SUMS_H_

#include "executor/backends/cuda/kernels/elementwise.h"
#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// Number of sums per chunk and column. They lie one after the other in scratch: plain, products, beside.
inline constexpr int kColumnResults = 3;

// Computes for each of `segments` runs of `rows` rows, and each column:
//   plain    = sum of dy
//   products = sum of dy (x - mean) rstd, with mean 0 and rstd 1 if they are absent
// The results of segment s begin at element s * stride + plain_offset, or products_offset, of their arrays. If
// `accumulate`, they are added to the old values. Null results are not computed; x is needed for `products`. If `made`
// is given, the op `make` computes it from dy and x, and the sums are over `made`, as stored, instead of dy.
struct ColumnSums {
  Array dy, x;
  Array made;
  // kGeluBackward or kGeluTanhBackward. If `made` is given, `plain` must be the only result and there must be one
  // segment.
  ElementwiseOp make = ElementwiseOp::kGeluBackward;
  // One for each run of `rows_of_statistic` rows and each of `groups` equal groups of columns; by default, one per row.
  Array mean, rstd;
  int64_t rows_of_statistic = 1, groups = 1;
  Array plain, products;
  int64_t plain_offset = 0, products_offset = 0;
  // Result of a launch that makes a third sum (norm.h), and true if that sum is added to the old value.
  Array beside;
  bool accumulate_beside = false;
  int64_t stride = 0;
  int64_t segments = 1;
  int64_t rows = 0;
  int64_t columns = 0;
  bool accumulate = false;
  bool in_double = false;
  // Scratch memory of ScratchBytes() bytes.
  void* scratch = nullptr;

  // Rows per chunk, and number of chunks. The chunks' sums are added in order. Both numbers depend only on the shape.
  int64_t RowsOfChunk() const;
  int64_t Chunks() const;
  int64_t ScratchBytes() const { return segments * Chunks() * kColumnResults * columns * (in_double ? 8 : 4); }
};
Outcome Launch(const ColumnSums& sums, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMN_SUMS_H_
