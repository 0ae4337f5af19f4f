// Turns a step of the optimizer into a launch, for one step or a run of steps (cuda_runs.cc). Internal to the CUDA
// backend.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_OPTIMIZER_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_OPTIMIZER_H_

#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/optimizer.h"

namespace weft::exec::cuda {

// Return the launch of a step.
AdamWUpdate AdamWArguments(const Call& call);
SgdUpdate SgdArguments(const Call& call);

// Set the arguments that change from one optimizer step to the next.
void SetStep(const StepContext& context, const StepAttributes& attributes, AdamWUpdate& args);
void SetStep(const StepContext& context, const StepAttributes& attributes, SgdUpdate& args);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_OPTIMIZER_H_
