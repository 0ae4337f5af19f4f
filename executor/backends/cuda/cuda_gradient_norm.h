// Turns a step that takes a norm into a launch, for one step or a run of steps (cuda_runs.cc). Internal to the CUDA
// backend.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_GRADIENT_NORM_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_GRADIENT_NORM_H_

#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/gradient_norm.h"

namespace weft::exec::cuda {

// Returns the launch of a SQUARED_NORM, without scratch memory.
SumOfSquares NormArguments(const Call& call);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_GRADIENT_NORM_H_
