// LAYER_NORM, RMS_NORM and the gradients of their inputs: alone, with the ADD of the residual stream beside them, or
// also with the sums over rows that are gradients of weights and biases (column_sums.h).
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_NORM_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_NORM_H_

#include "executor/backends/cuda/kernels/column_sums.h"
#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// y = (x - mean) rstd gamma + beta. Without `mean` and `beta` it is the root mean square norm.
struct Norm {
  Array x, gamma, beta;
  Array y, mean, rstd;
  // If given, x = a + b is computed first. x may be one of them.
  Array a, b;
  int64_t rows = 0;
  int64_t columns = 0;
  double epsilon = 0;
  bool in_double = false;
};
Outcome Launch(const Norm& norm, void* stream);

// Without `mean`, this is the backward pass of the root mean square norm.
struct NormBackward {
  Array dy, x, gamma, mean, rstd;
  Array dx;
  // If given: sum = (dx, as it is stored) + residual. `residual` may be `sum`. Must not be given with `accumulate`.
  Array residual, sum;
  int64_t rows = 0;
  int64_t columns = 0;
  bool accumulate = false;
  bool in_double = false;
};
Outcome Launch(const NormBackward& norm, void* stream);

// A norm with `residual` and `sum`, in float, for rows that RowLayout holds with two eights per thread (1024 < columns
// <= 8192). The launch also makes the results of `sums`, bit for bit as ColumnSums would make them from dy, x, mean and
// rstd of the norm. In `beside` it makes the column sums of the norm's `sum`. It uses only the results, the
// `accumulate`s and the scratch of `sums`.
struct NormBackwardSums {
  NormBackward norm;
  ColumnSums sums;
};
// True if NormBackwardSums supports the norm.
bool HasSums(const NormBackward& norm);
Outcome Launch(const NormBackwardSums& args, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_NORM_H_
