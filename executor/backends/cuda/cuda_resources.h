// Memory of the CUDA backend's own: scratch of kernels, and pinned memory on the way to the device.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_RESOURCES_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_RESOURCES_H_

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/device.h"

namespace weft::cuda {

// Device memory for one kernel's use, per stream: what is on it when the next kernel of the stream runs is its own.
class ScratchMemory {
 public:
  explicit ScratchMemory(ComputeDevice* device) : device_(device) {}

  // At least so many bytes, aligned to 256; what was there before is gone. Allocates if that was never asked for.
  absl::StatusOr<void*> Get(int stream, int64_t bytes);
  // Every stream that is used from now on has at least so many.
  void Reserve(int64_t bytes);

 private:
  struct Block {
    void* data = nullptr;
    int64_t bytes = 0;
  };
  ComputeDevice* device_;
  int64_t least_ = 0;
  std::map<int, Block> blocks_;
};

// Bytes that the host makes and a stream copies to the device.
class Staging {
 public:
  explicit Staging(ComputeDevice* device) : device_(device) {}

  // Calls `fill` with pinned memory of so many bytes, then enqueues their copy to `to`.
  absl::Status Upload(int stream, void* to, int64_t bytes, absl::FunctionRef<absl::Status(void*)> fill);
  absl::Status Reserve(int64_t bytes);

 private:
  // The host runs ahead of the device by a few repetitions at most; with more than this on their way it waits.
  static constexpr int kSlots = 64;
  struct Slot {
    void* data = nullptr;
    int64_t bytes = 0;
    int event = -1;
  };
  ComputeDevice* device_;
  int64_t least_ = 0;
  int next_ = 0;
  std::array<Slot, kSlots> slots_;
};

}  // namespace weft::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_RESOURCES_H_
