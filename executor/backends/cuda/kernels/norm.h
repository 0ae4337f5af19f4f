// LAYER_NORM, RMS_NORM and the gradients of their inputs, by themselves or with the ADD of the residual stream beside
// them. Gradients of weights are column sums (column_sums.h).
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_NORM_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_NORM_H_

#include "executor/backends/cuda/kernels/types.h"

namespace weft::cuda {

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

}  // namespace weft::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_NORM_H_
