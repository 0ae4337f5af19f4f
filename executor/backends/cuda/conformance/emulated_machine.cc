#include "executor/backends/cuda/conformance/machine.h"
#include "executor/backends/cuda/emulated_backend.h"
#include "executor/backends/cuda/kernels/emulation.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {

absl::StatusOr<Machine> OpenMachine() {
  Machine machine;
  WEFT_ASSIGN_OR_RETURN(machine.device, EmulatedBackend().open({}));
  WEFT_ASSIGN_OR_RETURN(machine.backend, EmulatedBackend().make(machine.device.get(), {}));
  machine.set_reversed = &emulation::SetReversed;
  return machine;
}

}  // namespace weft::exec::cuda
