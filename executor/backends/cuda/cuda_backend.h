// The backend `cuda`. It runs every kernel of docs/kernels.md as launches on a stream of the device. The arithmetic is
// in kernels/*.cu; linked with their emulation (kernels:emulated), the same backend runs without a GPU.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_BACKEND_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "executor/backends/cuda/attention.h"
#include "executor/backends/cuda/convolution.h"
#include "executor/backends/cuda/matmul.h"
#include "executor/interface/backend.h"

namespace weft::exec::cuda {

// Libraries of the device that the backend uses. Only `matmul` is required. If another library is null or does not
// support a step, the backend runs its own kernels.
struct Libraries {
  std::unique_ptr<Matmul> matmul;
  std::unique_ptr<FusedAttention> attention;
  std::unique_ptr<FusedConvolution> convolution;
  // False: steps that could share a launch run one by one.
  bool joins_launches = true;
};

// Makes the backend on `device`, which must outlive it. If the options hold a program, memory is allocated and
// libraries are prepared here.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(ComputeDevice* device, Libraries libraries,
                                                     const BackendOptions& options);

// True if the backend has this kernel. GROUP_* are collectives, which no backend runs.
bool HasKernel(Kernel kernel);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_BACKEND_H_
