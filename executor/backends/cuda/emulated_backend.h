// The CUDA backend on the host: its kernels in the emulation of CUDA, its libraries as loops. For tests without a GPU.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_EMULATED_BACKEND_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_EMULATED_BACKEND_H_

#include "executor/interface/backend.h"

namespace weft::exec::cuda {

// As in the registry of backends, where it is not.
const BackendEntry& EmulatedBackend();

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_EMULATED_BACKEND_H_
