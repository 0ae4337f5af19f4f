// Converts errors of CUDA's runtime to absl::Status.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_STATUS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace weft::exec::cuda {

// Returns e.g. "cudaMemcpyAsync: an illegal memory access was encountered (cudaErrorIllegalAddress)". The code is
// ResourceExhausted if memory is short, else Internal.
inline absl::Status CudaStatus(absl::string_view call, cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string text = absl::StrCat(call, ": ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")");
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(text) : absl::InternalError(text);
}

}  // namespace weft::exec::cuda

// Returns the error of `function(arguments...)`, with the name of the function.
#define WEFT_RETURN_IF_CUDA_ERROR(function, ...)                                             \
  do {                                                                                       \
    if (const cudaError_t weft_error_ = function(__VA_ARGS__); weft_error_ != cudaSuccess) { \
      return ::weft::exec::cuda::CudaStatus(#function, weft_error_);                         \
    }                                                                                        \
  } while (false)

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_STATUS_H_
