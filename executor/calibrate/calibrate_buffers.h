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

// Device memory that one case after another reuses, because a device frees its memory only when it is destroyed.
class CalibrationMemory {
 public:
  explicit CalibrationMemory(ComputeDevice* device) : device_(*device) {}

  ComputeDevice& device() { return device_; }
  // Makes all memory available again.
  void Reset();
  absl::StatusOr<std::byte*> Take(int64_t bytes);
  // Enqueues work that fills `bytes` bytes at `to` with random values of the tensor's type. `bytes` is a multiple of
  // 256. Tokens are below `vocabulary`. The values come from a pattern on the device, one pattern per type, and each
  // call begins at another place in the pattern.
  absl::Status Fill(const CaseTensor& tensor, int64_t vocabulary, std::byte* to, int64_t bytes);
  // Waits for everything that was enqueued.
  absl::Status Await();
  // Bytes allocated on the device.
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
  // Returns a pattern of at least `bytes` bytes. If `bytes` is larger than the largest pattern, it returns that one.
  absl::StatusOr<Pattern> PatternOf(const CaseTensor& tensor, int64_t vocabulary, int64_t bytes);

  ComputeDevice& device_;
  std::vector<Block> blocks_;
  // By type and, for tokens, by vocabulary (0 for other types).
  std::map<std::pair<DType, int64_t>, Pattern> patterns_;
  int64_t pattern_bytes_ = 0;
  // Where in its pattern the next tensor begins, in units of 256 bytes.
  int64_t begin_ = 0;
  uint32_t random_ = 12345;
  int stream_ = -1, event_ = -1;
};

// Several copies of a case's tensors, so that a call does not find its data in the caches from the previous call.
class KernelBuffers {
 public:
  struct Copy {
    std::vector<TensorView> inputs;
    std::vector<TensorView> outputs;
  };
  // Resets `memory`. `kernel` and `shapes` must outlive the result. Returns ResourceExhausted if the copies of the case
  // do not fit into the device's memory.
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
