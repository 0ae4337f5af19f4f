#include "executor/backends/cuda/emulated_backend.h"

#include "executor/backends/cuda/cuda_backend.h"
#include "executor/backends/cuda/emulated_libraries.h"

namespace weft::exec::cuda {
namespace {

absl::StatusOr<std::unique_ptr<ComputeDevice>> Open(const DeviceOptions& options) { return MakeHostDevice(); }

absl::StatusOr<std::unique_ptr<Backend>> Make(ComputeDevice* device, const BackendOptions& options) {
  return MakeBackend(device, EmulatedLibraries(), options);
}

}  // namespace

const BackendEntry& EmulatedBackend() {
  static constexpr BackendEntry kEntry = {"emulated", &Open, &Make, "kernels of the CUDA backend, emulated"};
  return kEntry;
}

}  // namespace weft::exec::cuda
