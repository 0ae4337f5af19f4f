// Tensors for the kernels that calibration measures. Internal to calibration.
#ifndef WEFT_EXECUTOR_CALIBRATE_CALIBRATE_BUFFERS_H_
#define WEFT_EXECUTOR_CALIBRATE_CALIBRATE_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/backend.h"
#include "executor/calibrate/calibrate_kernels.h"
#include "executor/data.h"
#include "executor/device.h"

namespace weft {

// Memory of a device, taken by one case after another: devices give none back.
class CalibrationMemory {
 public:
  explicit CalibrationMemory(ComputeDevice* device) : device_(*device) {}

  ComputeDevice& device() { return device_; }
  // Everything may be taken anew.
  void Reset();
  absl::StatusOr<std::byte*> Take(int64_t bytes);
  // That the device has given.
  int64_t bytes() const;

 private:
  struct Block {
    std::byte* data = nullptr;
    int64_t bytes = 0;
    int64_t used = 0;
  };
  ComputeDevice& device_;
  std::vector<Block> blocks_;
};

// Several copies of a case's tensors, so that what one call leaves in the caches is not the next one's.
class KernelBuffers {
 public:
  struct Copy {
    std::vector<TensorView> inputs;
    std::vector<TensorView> outputs;
  };
  // Resets `memory`. `kernel` and `shapes` outlive the result. ResourceExhausted if a case does not fit twice.
  static absl::StatusOr<std::unique_ptr<KernelBuffers>> Create(const CalibrationShapes& shapes,
                                                               const KernelCase& kernel, CalibrationMemory* memory);

  const Copy& Next() { return copies_[next_++ % copies_.size()]; }
  StepContext& context() { return context_; }

 private:
  KernelBuffers() = default;

  std::vector<Copy> copies_;
  size_t next_ = 0;
  StepContext context_;
  std::unique_ptr<DataSource> data_;
};

}  // namespace weft

#endif  // WEFT_EXECUTOR_CALIBRATE_CALIBRATE_BUFFERS_H_
