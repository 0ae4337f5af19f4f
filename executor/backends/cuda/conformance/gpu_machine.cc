#include "executor/backends/cuda/conformance/machine.h"
#include "proto/status.h"

namespace weft::cuda {

absl::StatusOr<Machine> OpenMachine() {
  Machine machine;
  WEFT_ASSIGN_OR_RETURN(const BackendEntry* entry, FindBackend("cuda"));
  WEFT_ASSIGN_OR_RETURN(machine.device, entry->open({}));
  WEFT_ASSIGN_OR_RETURN(machine.backend, entry->make(machine.device.get(), {}));
  return machine;
}

}  // namespace weft::cuda
