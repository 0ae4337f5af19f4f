// Implements FusedAttention by cuDNN.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_ATTENTION_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_ATTENTION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/backends/cuda/attention.h"
#include "executor/backends/cuda/cudnn_session.h"

namespace weft::exec::cuda {

// Makes attention by cuDNN. Has is true for a shape if ChooseAttention* finds an engine for the session's device, until
// an attempt to compile its engines fails. Other shapes run on the backend's own, slower kernels; Refusal returns the
// reason.
std::unique_ptr<FusedAttention> MakeCudnnAttention(std::shared_ptr<CudnnSession> session);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_ATTENTION_H_
