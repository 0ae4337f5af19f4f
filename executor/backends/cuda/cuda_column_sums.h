// Launches of BIAS_GRADIENT and of the weight gradients of norms. Internal to the CUDA backend.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_COLUMN_SUMS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_COLUMN_SUMS_H_

#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/column_sums.h"

namespace weft::exec::cuda {

// Returns the launch of BIAS_GRADIENT, without its scratch.
ColumnSums BiasGradientArguments(const Call& call);
// Returns the launch of LAYER_NORM_BACKWARD_WEIGHT or RMS_NORM_BACKWARD_WEIGHT, without its scratch.
ColumnSums NormWeightArguments(const Call& call);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_COLUMN_SUMS_H_
