// Memory of the CUDA backend's own: scratch of kernels, and pinned memory on the way to the device.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_RESOURCES_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_RESOURCES_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/interface/device.h"

namespace weft::exec::cuda {

// Device memory for one kernel's use, per stream: what is on it when the next kernel of the stream runs is its own.
class ScratchMemory {
 public:
  explicit ScratchMemory(ComputeDevice* device) : device_(device) {}

  // At least so many bytes, aligned to 256; what was there before is gone. Allocates if that was never asked for.
  absl::StatusOr<void*> Get(int stream, int64_t bytes);
  // Every stream that is used from now on has at least so many.
  void Reserve(int64_t bytes) { least_ = std::max(least_, bytes); }
  // Allocates what one stream needs, and that is the first that asks.
  absl::Status Settle();

 private:
  struct Block {
    void* data = nullptr;
    int64_t bytes = 0;
  };
  ComputeDevice* device_;
  int64_t least_ = 0;
  Block spare_;
  std::map<int, Block> blocks_;
};

// Tables on the device that depend on a few numbers only, kept from one step to the next.
class KeptTables {
 public:
  explicit KeptTables(ComputeDevice* device) : device_(device) {}

  struct Table {
    void* data = nullptr;
    // False: it was not there; the caller fills it on the stream now.
    bool filled = false;
  };
  // The stream's table with this key.
  absl::StatusOr<Table> Get(int stream, const std::vector<double>& key, int64_t bytes);
  // Allocates memory for one such table, once for each key.
  absl::Status Prepare(const std::vector<double>& key, int64_t bytes);

 private:
  // More than any model has; then the oldest of the stream makes room.
  static constexpr int kMost = 16;
  struct Entry {
    // -1: memory that nobody has taken yet.
    int stream = -1;
    std::vector<double> key;
    void* data = nullptr;
    int64_t bytes = 0;
  };
  absl::StatusOr<Entry*> NewEntry(int64_t bytes);

  ComputeDevice* device_;
  std::vector<Entry> entries_;
};

// Tables on the device that never change. They lie side by side in few allocations, and those with the same bytes are
// one: a program has a table for each of its actions that runs many steps as one launch, of which most are alike.
class FixedTables {
 public:
  explicit FixedTables(ComputeDevice* device) : device_(device) {}

  // A table with these bytes, aligned to 256. Waits for their copy: not for use within a step.
  absl::StatusOr<void*> Get(absl::string_view bytes);

 private:
  static constexpr int64_t kBlock = int64_t{1} << 18;

  ComputeDevice* device_;
  std::map<std::string, void*> tables_;
  // Of the block that was allocated last: what no table has yet.
  char* free_ = nullptr;
  int64_t free_bytes_ = 0;
};

// Bytes that the host makes and a stream copies to the device: through a ring of pinned memory, of which an upload
// takes as much as it needs.
class Staging {
 public:
  explicit Staging(ComputeDevice* device) : device_(device) {}

  // Calls `fill` with pinned memory of so many bytes, then enqueues their copy to `to`.
  absl::Status Upload(int stream, void* to, int64_t bytes, absl::FunctionRef<absl::Status(void*)> fill);
  // There will be an upload of so many bytes, in each repetition of what the program does.
  void Reserve(int64_t bytes);
  // Allocates what is needed for those that were reserved.
  absl::Status Settle();

  // Of the ring: twice the largest upload, so that it does not wait for the one before; up to kRoomy as much as all
  // those that may be on their way at a time, on average, take.
  int64_t capacity() const { return capacity_; }

 private:
  // With more than this on their way the host waits. It can: work waits for work enqueued before only.
  static constexpr int kMost = 32;
  static constexpr int64_t kRoomy = int64_t{16} << 20;
  // Bytes [begin, end) of the ring, free when the event is over.
  struct Piece {
    int64_t begin = 0, end = 0;
    int event = -1;
  };

  // Waits for the oldest upload.
  absl::Status Retire();
  absl::Status Grow(int64_t least);
  absl::StatusOr<int> NewPieceEvent();

  ComputeDevice* device_;
  // Of what was reserved.
  int64_t largest_ = 0, total_ = 0, uploads_ = 0;
  char* ring_ = nullptr;
  int64_t capacity_ = 0, next_ = 0;
  // On their way, oldest first; and events that no upload has.
  std::deque<Piece> pieces_;
  std::vector<int> events_;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_RESOURCES_H_
