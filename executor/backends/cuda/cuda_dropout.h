// Computes the parameters that launches with dropout need. Internal to the CUDA backend.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_DROPOUT_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_DROPOUT_H_

#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/dropout.h"
#include "executor/numerics/philox.h"

namespace weft::exec::cuda {

Samples SamplesOf(const StepContext& context);
DropoutKey DropoutKeyOf(const Call& call);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_DROPOUT_H_
