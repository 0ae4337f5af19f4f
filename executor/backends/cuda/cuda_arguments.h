// Launch arguments of steps that are launched alone or in a run of steps (cuda_runs.cc). Internal to the CUDA backend.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_ARGUMENTS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_ARGUMENTS_H_

#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/column_sums.h"
#include "executor/backends/cuda/kernels/exact.h"
#include "executor/backends/cuda/kernels/gradient_norm.h"
#include "executor/backends/cuda/kernels/norm.h"
#include "executor/backends/cuda/kernels/optimizer.h"

namespace weft::exec::cuda {

// Return the arguments of LAYER_NORM or RMS_NORM, and of their backward kernels.
Norm RowNormArguments(const Call& call);
NormBackward RowNormBackwardArguments(const Call& call);

// Returns the arguments of BIAS_GRADIENT, without its scratch.
ColumnSums BiasGradientArguments(const Call& call);
// Returns the arguments of LAYER_NORM_BACKWARD_WEIGHT or RMS_NORM_BACKWARD_WEIGHT, without its scratch.
ColumnSums NormWeightArguments(const Call& call);

// Returns the arguments of SQUARED_NORM, without its scratch.
SumOfSquares NormArguments(const Call& call);

AdamWUpdate AdamWArguments(const Call& call);
SgdUpdate SgdArguments(const Call& call);
// Set the arguments that change from one optimizer step to the next.
void SetStep(const StepContext& context, const StepAttributes& attributes, AdamWUpdate& args);
void SetStep(const StepContext& context, const StepAttributes& attributes, SgdUpdate& args);

// Arguments of EXACT_ACCUMULATE, EXACT_ROUND, or FILL of EXACT192.
struct ExactCall {
  ExactOp op = ExactOp::kConstant;
  ExactTensor tensor;
  // The constant, if `op` is kConstant.
  Exact192 value = {};
};
ExactCall ExactArguments(const Call& call);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_ARGUMENTS_H_
