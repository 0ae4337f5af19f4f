// The libraries of the CUDA backend as plain loops on the host, for tests without a GPU.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_EMULATED_LIBRARIES_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_EMULATED_LIBRARIES_H_

#include "executor/backends/cuda/cuda_backend.h"

namespace weft::exec::cuda {

// Returns matrix products only. The backend's own kernels run attention and convolutions.
Libraries EmulatedLibraries();

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_EMULATED_LIBRARIES_H_
