// Checks that this machine's driver and GPU can run this build. Each refusal is one line.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_CHECK_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::exec::cuda {

// Facts that CheckDriver checks, such as the results of cudaDriverGetVersion and cudaGetDeviceCount.
struct DriverFacts {
  // 13000 is CUDA 13.0; 0 = no driver.
  int driver_version = 0;
  // CUDA version of the toolkit that built this program.
  int runtime_version = 0;
  int devices = 0;
  // Error of cudaGetDeviceCount. Empty if it succeeded or found no device.
  std::string error;
  // CUDA_VISIBLE_DEVICES, if it is set.
  bool visible_devices_set = false;
  std::string visible_devices;
};

// Returns FailedPrecondition if there is no driver or no GPU, or if the driver's major version of CUDA is older than
// the toolkit's.
absl::Status CheckDriver(const DriverFacts& facts);

// Returns FailedPrecondition below compute capability 8.0, with the device and the reason.
absl::Status CheckArchitecture(absl::string_view device, int major, int minor);

// Returns the number of the device that this process uses: `wanted` if it is at least 0. If `wanted` is -1, the number
// is the local rank from torchrun (LOCAL_RANK), Open MPI (OMPI_COMM_WORLD_LOCAL_RANK) or Slurm (SLURM_LOCALID), or 0 if
// none of them is set. If the launcher shows only one device to each process, that device is used. Returns
// InvalidArgument if the variable is not a number of at least 0, FailedPrecondition if there is no device of this
// number.
absl::StatusOr<int> ChooseDevice(int wanted, int devices, const char* (*variable)(const char* name));

// Returns ResourceExhausted if `planned` bytes are more than `free`. The message names planned, free and total memory.
absl::Status CheckMemory(absl::string_view device, int64_t planned, int64_t free, int64_t total);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_CHECK_H_
