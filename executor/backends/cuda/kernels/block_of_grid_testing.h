// For tests: runs one block of a grid that is too large to run completely, on memory that is too large to be filled.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_BLOCK_OF_GRID_TESTING_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_BLOCK_OF_GRID_TESTING_H_

#include <sys/mman.h>

#include <cstdint>

#include "executor/backends/cuda/kernels/portable.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {

// Runs Kernel in a grid of one block. To the kernel, it is block number `block` of `blocks` blocks.
template <typename Kernel>
struct BlockOfGrid {
  static constexpr int kMaxThreads = Kernel::kMaxThreads;
  const Kernel& kernel;
  int64_t block, blocks;

  template <typename Thread>
  void operator()(Thread& thread) const {
    struct Placed : Thread {
      Placed(const Thread& thread, int64_t at, int64_t of) : Thread(thread), at_(at), of_(of) {}
      int64_t block() const { return at_; }
      int64_t blocks() const { return of_; }
      int64_t at_, of_;
    };
    Placed placed(thread, block, blocks);
    kernel(placed);
  }
};

template <typename Kernel>
void RunBlock(const Kernel& kernel, int64_t block, int64_t blocks, int threads, int64_t shared_bytes) {
  const Outcome outcome = LaunchKernel(BlockOfGrid<Kernel>{kernel, block, blocks}, 1, threads, shared_bytes, nullptr);
  ASSERT_EQ(outcome, nullptr) << outcome;
}

// Zeroed memory. The system provides only the pages that are touched.
class SparseMemory {
 public:
  explicit SparseMemory(int64_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  ~SparseMemory() {
    if (good()) munmap(data_, static_cast<size_t>(bytes_));
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;

  bool good() const { return data_ != MAP_FAILED; }
  template <typename T>
  T* data() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_;
  int64_t bytes_;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_BLOCK_OF_GRID_TESTING_H_
