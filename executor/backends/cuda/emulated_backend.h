// The CUDA backend on the host, for tests without a GPU: its kernels run in the emulation of CUDA, its libraries are
// loops.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_EMULATED_BACKEND_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_EMULATED_BACKEND_H_

#include "executor/interface/backend.h"

namespace weft::exec::cuda {

// Returns an entry like those in the registry of backends, which does not list this one.
const BackendEntry& EmulatedBackend();

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_EMULATED_BACKEND_H_
