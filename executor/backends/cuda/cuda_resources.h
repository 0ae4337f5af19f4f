// Memory that the CUDA backend owns: scratch of kernels, tables, and pinned memory for uploads to the device.
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

// Scratch memory on the device, one block per stream. A kernel may use it until the next kernel of its stream runs.
class ScratchMemory {
 public:
  explicit ScratchMemory(ComputeDevice* device) : device_(device) {}

  // Returns at least `bytes` bytes, aligned to 256. The old content is lost. Allocates memory if the stream's block is
  // smaller than that.
  absl::StatusOr<void*> Get(int stream, int64_t bytes);
  // From now on, every new block has at least this many bytes.
  void Reserve(int64_t bytes) { least_ = std::max(least_, bytes); }
  // Allocates a block of the reserved bytes in advance. The first stream that needs scratch memory gets it.
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

// Tables on the device whose content depends only on a few numbers, the key. Tables are kept from step to step.
class KeptTables {
 public:
  explicit KeptTables(ComputeDevice* device) : device_(device) {}

  struct Table {
    void* data = nullptr;
    // False if the table is new. The caller must then enqueue work on the stream that fills it.
    bool filled = false;
  };
  // Returns the stream's table with this key.
  absl::StatusOr<Table> Get(int stream, const std::vector<double>& key, int64_t bytes);
  // Allocates memory for one table with this key, once per key.
  absl::Status Prepare(const std::vector<double>& key, int64_t bytes);

 private:
  // Maximum number of tables per stream, more than any model has. Beyond it, a new table replaces the stream's oldest
  // table that is large enough. If none is, the new table gets memory of its own.
  static constexpr int kMax = 16;
  struct Entry {
    // The stream that uses the table, or kNoStream (cuda_resources.cc) if no stream has taken this memory yet.
    int stream = -1;
    std::vector<double> key;
    void* data = nullptr;
    int64_t bytes = 0;
  };
  absl::StatusOr<Entry*> NewEntry(int64_t bytes);

  ComputeDevice* device_;
  std::vector<Entry> entries_;
};

// Tables on the device that never change, packed into few allocations. Tables with the same bytes are shared: a program
// has one table for each action that runs many steps as one launch, and most of them are alike.
class FixedTables {
 public:
  explicit FixedTables(ComputeDevice* device) : device_(device) {}

  // Returns a table with these bytes, aligned to 256. It waits for the copy, so it must not be called within a step.
  absl::StatusOr<void*> Get(absl::string_view bytes);

 private:
  static constexpr int64_t kBlock = int64_t{1} << 18;

  ComputeDevice* device_;
  std::map<std::string, void*> tables_;
  // Free part of the block that was allocated last.
  char* free_ = nullptr;
  int64_t free_bytes_ = 0;
};

// Copies bytes from the host to the device, on a stream, through a ring of pinned memory. An upload occupies part of
// the ring until its copy has finished.
class Staging {
 public:
  explicit Staging(ComputeDevice* device) : device_(device) {}

  // Calls `fill` with `bytes` bytes of pinned memory, then enqueues their copy to `to`.
  absl::Status Upload(int stream, void* to, int64_t bytes, absl::FunctionRef<absl::Status(void*)> fill);
  // Announces an upload of this size in each repetition of the program.
  void Reserve(int64_t bytes);
  // Allocates memory and events for the announced uploads.
  absl::Status Settle();

  // Bytes of the ring. It holds twice the largest announced upload, so that an upload need not wait for the one before.
  // It also holds kMax uploads of average size, as long as these take no more than kRoomy bytes.
  int64_t capacity() const { return capacity_; }

 private:
  // Maximum number of uploads in flight. A further upload waits on the host. That cannot deadlock: work on the device
  // waits only for work that was enqueued before it.
  static constexpr int kMax = 32;
  static constexpr int64_t kRoomy = int64_t{16} << 20;
  // An upload in flight: bytes [begin, end) of the ring. They are free again once the event has finished.
  struct Piece {
    int64_t begin = 0, end = 0;
    int event = -1;
  };

  // Waits until the oldest upload has finished, and frees its piece of the ring.
  absl::Status Retire();
  absl::Status Grow(int64_t least);
  absl::StatusOr<int> NewPieceEvent();

  ComputeDevice* device_;
  // Largest upload, total bytes and number of the announced uploads.
  int64_t largest_ = 0, total_ = 0, uploads_ = 0;
  char* ring_ = nullptr;
  int64_t capacity_ = 0, next_ = 0;
  // Uploads in flight, oldest first, and events that no upload uses.
  std::deque<Piece> pieces_;
  std::vector<int> events_;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDA_RESOURCES_H_
