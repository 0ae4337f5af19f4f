// The backend `cuda` of a program built without a CUDA toolkit: it is listed, but cannot be opened.
#include <memory>

#include "executor/interface/backend.h"

namespace weft::exec {
namespace {

absl::Status Absent() {
  return absl::FailedPreconditionError(
      "backend cuda: this program was built without a CUDA toolkit; build it where there is one (tools/setup says what "
      "it finds), or run with --backend=cpu");
}

}  // namespace

absl::StatusOr<std::unique_ptr<ComputeDevice>> OpenCudaDevice(const DeviceOptions& options) { return Absent(); }

absl::StatusOr<std::unique_ptr<Backend>> MakeCuda(ComputeDevice* device, const BackendOptions& options) {
  return Absent();
}

}  // namespace weft::exec
