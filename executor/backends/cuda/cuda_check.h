// Whether this machine's driver and GPU run what this build holds. Each refusal is one line.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_CHECK_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::exec::cuda {

// What the driver says: cudaDriverGetVersion, and how cudaGetDeviceCount ended.
struct DriverFacts {
  // 13000 is CUDA 13.0; 0 = there is no driver.
  int driver_version = 0;
  // Of the toolkit that this program was built with.
  int runtime_version = 0;
  int devices = 0;
  // Of cudaGetDeviceCount, empty if it succeeded or found no device.
  std::string error;
  // CUDA_VISIBLE_DEVICES, if it is set.
  bool visible_devices_set = false;
  std::string visible_devices;
};

// FailedPrecondition: no driver; a driver of an older major version of CUDA; no GPU.
absl::Status CheckDriver(const DriverFacts& facts);

// FailedPrecondition below compute capability 8.0, naming the device and the reason.
absl::Status CheckArchitecture(absl::string_view device, int major, int minor);

// The device of this process. `wanted` >= 0 is its number; -1: that of the local rank, as torchrun (LOCAL_RANK), Open
// MPI (OMPI_COMM_WORLD_LOCAL_RANK) and Slurm (SLURM_LOCALID) say it, 0 without any; a launcher that shows each process
// one device only needs no number. FailedPrecondition if there are fewer devices.
absl::StatusOr<int> ChooseDevice(int wanted, int devices, const char* (*variable)(const char* name));

// ResourceExhausted, with what is planned, what is free and what the device has in all.
absl::Status CheckMemory(absl::string_view device, int64_t planned, int64_t free, int64_t total);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_CHECK_H_
