#include "executor/backends/cuda/conformance/machine.h"
#include "executor/backends/cuda/cuda_backend.h"
#include "executor/backends/cuda/emulated_libraries.h"
#include "executor/backends/cuda/kernels/emulation.h"
#include "proto/status.h"

namespace weft::cuda {

absl::StatusOr<Machine> OpenMachine() {
  Machine machine;
  machine.device = MakeHostDevice();
  WEFT_ASSIGN_OR_RETURN(machine.backend, MakeBackend(machine.device.get(), EmulatedLibraries(), {}));
  machine.set_reversed = &emulation::SetReversed;
  return machine;
}

}  // namespace weft::cuda
