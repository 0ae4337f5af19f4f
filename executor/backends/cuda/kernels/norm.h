// LAYER_NORM, RMS_NORM and the gradients of their inputs, by themselves or with the ADD of the residual stream beside
// them, and then with the sums over rows that gradients of weights and biases are (column_sums.h).
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_NORM_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_NORM_H_

#include "executor/backends/cuda/kernels/column_sums.h"
#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// y = (x - mean) rstd gamma + beta; without `mean` and `beta` the root mean square norm.
struct Norm {
  Array x, gamma, beta;
  Array y, mean, rstd;
  // If given: x is made first, x = a + b, and may be one of them.
  Array a, b;
  int64_t rows = 0;
  int64_t columns = 0;
  double epsilon = 0;
  bool in_double = false;
};
Outcome Launch(const Norm& norm, void* stream);

// Without `mean` that of the root mean square norm.
struct NormBackward {
  Array dy, x, gamma, mean, rstd;
  Array dx;
  // If given: sum = dx, as it is stored, + residual, which may be `sum`. Not with `accumulate`.
  Array residual, sum;
  int64_t rows = 0;
  int64_t columns = 0;
  bool accumulate = false;
  bool in_double = false;
};
Outcome Launch(const NormBackward& norm, void* stream);

// With `residual` and `sum`, in float, of rows that RowLayout holds two eights each of (1024 < columns <= 8192):
// besides, of `sums`, what ColumnSums would make of dy, x, mean and rstd of the norm, and in `beside` the sums of
// `sum`, bit for bit. Of `sums` only results, `accumulate`s and scratch are looked at.
struct NormBackwardSums {
  NormBackward norm;
  ColumnSums sums;
};
// Whether there is such a launch for the norm.
bool HasSums(const NormBackward& norm);
Outcome Launch(const NormBackwardSums& args, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_NORM_H_
