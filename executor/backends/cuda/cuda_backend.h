// The backend `cuda`: every kernel of docs/kernels.md as launches on a stream of the device. The arithmetic is in
// kernels/*.cu; linked with their emulation (kernels:emulated) the same backend runs where there is no GPU.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_BACKEND_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "executor/backends/cuda/attention.h"
#include "executor/backends/cuda/convolution.h"
#include "executor/backends/cuda/matmul.h"
#include "executor/interface/backend.h"

namespace weft::exec::cuda {

// What the backend takes from libraries of the device. Only `matmul` must be there: for the others, and for what they
// do not have, there are kernels of our own.
struct Libraries {
  std::unique_ptr<Matmul> matmul;
  std::unique_ptr<FusedAttention> attention;
  std::unique_ptr<FusedConvolution> convolution;
};

// `device` outlives it. With a program in the options its memory is allocated and its libraries are prepared here.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(ComputeDevice* device, Libraries libraries,
                                                     const BackendOptions& options);

// Whether the backend has a kernel; GROUP_* are collectives, which no backend runs.
bool HasKernel(Kernel kernel);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_BACKEND_H_
