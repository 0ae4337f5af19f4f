// What launches with dropout are told about it. Internal to the CUDA backend.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_DROPOUT_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_DROPOUT_H_

#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/dropout.h"
#include "executor/numerics/philox.h"

namespace weft::exec::cuda {

// InvalidArgument unless the step's dropout is in [0, 1) and a sample's elements can be counted by 32 bits of e / 4.
absl::Status CheckDropout(const Call& call, int64_t elements_per_sample);

Samples SamplesOf(const StepContext& context);
DropoutKey DropoutKeyOf(const Call& call);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_DROPOUT_H_
