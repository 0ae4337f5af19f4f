// Memory that a library's kernels work in: a block for each stream, since what one kernel leaves in it the next of the
// stream overwrites. Reserved before the first step.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_LIBRARY_WORKSPACE_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_LIBRARY_WORKSPACE_H_

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/interface/device.h"

namespace weft::exec::cuda {

class LibraryWorkspace {
 public:
  explicit LibraryWorkspace(ComputeDevice* device) : device_(device) {}

  // Every block that is allocated from now on has at least so many bytes.
  void Reserve(int64_t bytes) { reserved_ = std::max(reserved_, bytes); }
  // When all has been reserved: allocates a block, once, which the first stream that asks gets. Null if nothing was
  // reserved; whoever asks may work in it until a stream has it.
  absl::StatusOr<void*> Settle();
  // The stream's own, aligned to 256 bytes; allocated here for all streams but the first that asks.
  absl::StatusOr<void*> Get(int stream, int64_t bytes);

  // Of all blocks together.
  int64_t allocated_bytes() const { return allocated_; }

 private:
  struct Block {
    void* data = nullptr;
    int64_t bytes = 0;
  };
  absl::StatusOr<Block> Allocate(int64_t bytes);

  ComputeDevice* device_;
  int64_t reserved_ = 0;
  int64_t allocated_ = 0;
  // Of no stream yet.
  Block spare_;
  std::map<int, Block> blocks_;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_LIBRARY_WORKSPACE_H_
