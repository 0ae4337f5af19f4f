// The machine on which tests run the CUDA backend: the emulation, or a GPU.
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
  // Sets whether the threads and blocks of the emulation run in reverse order. Null on a GPU, which has no such order.
  void (*set_reversed)(bool reversed) = nullptr;
};

// Defined in emulated_machine.cc or gpu_machine.cc; the test links one of them.
absl::StatusOr<Machine> OpenMachine();

// Returns the machine, which is opened once. If there is none, the test fails and the process ends.
Machine& TheMachine();
// Returns a stream of the machine's device, shared by all tests.
int TheStream();

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CONFORMANCE_MACHINE_H_
