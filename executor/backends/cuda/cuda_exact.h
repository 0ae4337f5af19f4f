// Launches of EXACT_ACCUMULATE, EXACT_ROUND and FILL of EXACT192. Internal to the CUDA backend.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_EXACT_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_EXACT_H_

#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/exact.h"

namespace weft::exec::cuda {

struct ExactCall {
  ExactOp op = ExactOp::kConstant;
  ExactTensor tensor;
  // The constant, if `op` is kConstant.
  Exact192 value = {};
};
ExactCall ExactArguments(const Call& call);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_EXACT_H_
