// Tensors for the kernels that calibration measures. Internal to calibration.
#ifndef WEFT_EXECUTOR_CALIBRATE_CALIBRATE_BUFFERS_H_
#define WEFT_EXECUTOR_CALIBRATE_CALIBRATE_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/calibrate/calibrate_kernels.h"
#include "executor/data/data.h"
#include "executor/interface/backend.h"
#include "executor/interface/device.h"

namespace weft::exec {

// Memory of a device, taken by one case after another: devices give none back.
class CalibrationMemory {
 public:
  explicit CalibrationMemory(ComputeDevice* device) : device_(*device) {}

  ComputeDevice& device() { return device_; }
  // Everything may be taken anew.
  void Reset();
  absl::StatusOr<std::byte*> Take(int64_t bytes);
  // Enqueues that `bytes` at `to`, a multiple of 256, become random values of the tensor's type; tokens below
  // `vocabulary`. They come from one pattern on the device for each type, each time from another place in it.
  absl::Status Fill(const CaseTensor& tensor, int64_t vocabulary, std::byte* to, int64_t bytes);
  // Waits for what was enqueued.
  absl::Status Await();
  // That the device has given.
  int64_t bytes() const;

 private:
  struct Pattern {
    std::byte* data = nullptr;
    int64_t bytes = 0;
  };
  struct Block {
    std::byte* data = nullptr;
    int64_t bytes = 0;
    int64_t used = 0;
  };
  // Of at least so many bytes, or the most that a pattern has.
  absl::StatusOr<Pattern> PatternOf(const CaseTensor& tensor, int64_t vocabulary, int64_t bytes);

  ComputeDevice& device_;
  std::vector<Block> blocks_;
  // By type and, of tokens, the vocabulary.
  std::map<std::pair<DType, int64_t>, Pattern> patterns_;
  int64_t pattern_bytes_ = 0;
  // Where in its pattern the next tensor begins, in units of 256 bytes.
  int64_t begin_ = 0;
  uint32_t random_ = 12345;
  int stream_ = -1, event_ = -1;
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

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CALIBRATE_CALIBRATE_BUFFERS_H_
