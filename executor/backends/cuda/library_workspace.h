// Workspace of a library's kernels, reserved before the first step. Each stream has its own block: kernels of one
// stream run one after another and may overwrite each other's data, but kernels of two streams may not.
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

  // Every block that is allocated from now on has at least `bytes` bytes.
  void Reserve(int64_t bytes) { reserved_ = std::max(reserved_, bytes); }
  // Called after all reservations: allocates one block, only once, and returns it. The first stream that calls Get
  // takes the block; until then the caller may work in it. Returns null if nothing was reserved.
  absl::StatusOr<void*> Settle();
  // Returns the stream's own block, aligned to 256 bytes. The first stream that asks gets the block from Settle; for
  // every other stream, Get allocates a block.
  absl::StatusOr<void*> Get(int stream, int64_t bytes);

  // Bytes of all blocks together.
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
  // A block that no stream has taken yet.
  Block spare_;
  std::map<int, Block> blocks_;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_LIBRARY_WORKSPACE_H_
