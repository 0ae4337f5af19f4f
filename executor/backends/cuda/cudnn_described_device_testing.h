// Devices that are described to cuDNN but do not exist. Tests ask cuDNN for its engines on them, without a GPU.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_DESCRIBED_DEVICE_TESTING_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_DESCRIBED_DEVICE_TESTING_H_

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "executor/backends/cuda/cudnn_library.h"
#include "executor/platform/shared_library.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {

// Device properties that decide which engines run. Sources: the CUDA programming guide's table of technical
// specifications per compute capability, and the data sheets of A100, H200 and B200.
struct DescribedDevice {
  const char* name;
  // 900 means compute capability 9.0.
  int version;
  int multiprocessors;
  int shared_memory_per_block;
  int64_t memory_bytes;
  int l2_bytes;
};
inline constexpr DescribedDevice kV100 = {"Tesla V100", 700, 80, 98304, int64_t{16} << 30, 6 << 20};
inline constexpr DescribedDevice kA100 = {"NVIDIA A100", 800, 108, 166912, int64_t{80} << 30, 40 << 20};
inline constexpr DescribedDevice kH200 = {"NVIDIA H200", 900, 132, 232448, int64_t{141} << 30, 50 << 20};
inline constexpr DescribedDevice kB200 = {"NVIDIA B200", 1000, 148, 232448, int64_t{180} << 30, 126 << 20};

// Describes the device to cuDNN, in JSON with the keys that cuDNN 9.19 needs. These are also the keys that cuDNN writes
// for a real device (CUDNN_ATTR_DEVICEPROP_HANDLE, then this attribute).
inline absl::StatusOr<CudnnDescriptor> Describe(const Cudnn* cudnn, const DescribedDevice& device) {
  const std::string json = absl::StrCat(
      R"({"deviceName":")", device.name, R"(","cudaDeviceId":0,"deviceVer":)", device.version,
      R"(,"driverVer":13000,"multiProcessorCount":)", device.multiprocessors, R"(,"totalGlobalMem":)",
      device.memory_bytes, R"(,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":)",
      device.shared_memory_per_block, R"(,"reservedSharedMemoryPerBlock":1024,"maxGridSize":[2147483647,65535,65535],)",
      R"("maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"maxRegistersPerSM":65536,"maxCtasPerSM":32,)",
      R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"warpSize":32,"l2CacheSize":)", device.l2_bytes,
      R"(,"smClockRateKHz":1980000,"memClockRateKHz":3201000,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1})");
  WEFT_ASSIGN_OR_RETURN(CudnnDescriptor made, CudnnDescriptor::Make(cudnn, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR,
                                                                    "the description of a device"));
  WEFT_RETURN_IF_ERROR(made.Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                static_cast<int64_t>(json.size()), json.data()));
  WEFT_RETURN_IF_ERROR(made.Finalise());
  return made;
}

// Opens cuDNN without a driver. Its engines look for libcuda.so.1 and find the test's stand-in, whose functions all
// fail (libcuda_stub.so in the BUILD file). Looks for cuDNN first where the build found its headers
// (TEST_CUDA_LIBRARY_PATH).
inline absl::StatusOr<const Cudnn*> OpenCudnnWithoutDriver() {
  if (dlopen("executor/backends/cuda/libcuda_stub.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return absl::InternalError(dlerror());
  }
  if (const char* path = std::getenv("TEST_CUDA_LIBRARY_PATH")) {
    SetLibraryPath(std::vector<std::string>(absl::StrSplit(path, ':', absl::SkipEmpty())));
  }
  return OpenCudnn();
}

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_DESCRIBED_DEVICE_TESTING_H_
