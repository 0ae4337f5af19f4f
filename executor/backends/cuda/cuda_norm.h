// Launches of LAYER_NORM, RMS_NORM and their backward kernels. Internal to the CUDA backend.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_NORM_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_NORM_H_

#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/norm.h"

namespace weft::exec::cuda {

Norm RowNormArguments(const Call& call);
NormBackward RowNormBackwardArguments(const Call& call);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_NORM_H_
