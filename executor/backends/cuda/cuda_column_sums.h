// What BIAS_GRADIENT and the gradients of the weights of norms launch. Internal to the CUDA backend.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_COLUMN_SUMS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_COLUMN_SUMS_H_

#include "absl/status/statusor.h"
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/column_sums.h"

namespace weft::exec::cuda {

// Without scratch.
absl::StatusOr<ColumnSums> BiasGradientArguments(const Call& call);
// Of LAYER_NORM_BACKWARD_WEIGHT and RMS_NORM_BACKWARD_WEIGHT.
absl::StatusOr<ColumnSums> NormWeightArguments(const Call& call);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_COLUMN_SUMS_H_
