// What tests run the CUDA backend on: the emulation, or a GPU.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CONFORMANCE_MACHINE_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CONFORMANCE_MACHINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "executor/interface/backend.h"
#include "executor/interface/device.h"

namespace weft::exec::cuda {

struct Machine {
  std::unique_ptr<ComputeDevice> device;
  std::unique_ptr<Backend> backend;
  // Threads and blocks take their turns the other way around from now on; null: they take no turns.
  void (*set_reversed)(bool reversed) = nullptr;
};

// Linked from emulated_machine.cc or gpu_machine.cc.
absl::StatusOr<Machine> OpenMachine();

// Opened once; a test that has none fails and ends the process.
Machine& TheMachine();
// A stream of its device, for all tests.
int TheStream();

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CONFORMANCE_MACHINE_H_
