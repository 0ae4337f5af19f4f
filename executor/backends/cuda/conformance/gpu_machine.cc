#include "executor/backends/cuda/conformance/machine.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {

absl::StatusOr<Machine> OpenMachine() {
  Machine machine;
  WEFT_ASSIGN_OR_RETURN(const BackendEntry* entry, FindBackend("cuda"));
  WEFT_ASSIGN_OR_RETURN(machine.device, entry->open({}));
  WEFT_ASSIGN_OR_RETURN(machine.backend, entry->make(machine.device.get(), {}));
  return machine;
}

}  // namespace weft::exec::cuda
