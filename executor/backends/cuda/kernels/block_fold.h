// Reduces the values of a block's threads to one value, in an order that depends only on the number of threads.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_BLOCK_FOLD_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_BLOCK_FOLD_H_

#include "executor/backends/cuda/kernels/portable.h"

namespace weft::exec::cuda {

// Merges the values of all threads as a tree and returns the result to every thread. The number of threads must be a
// power of two. Needs (number of threads) * sizeof(V) bytes of shared memory from `first_byte` on. All threads of the
// block must call it.
template <typename V, typename Thread, typename Merge>
WEFT_DEVICE V BlockFold(Thread& thread, int64_t first_byte, V value, Merge merge) {
  const auto shared = thread.template Shared<V>(first_byte, thread.count());
  shared.Put(thread.index(), value);
  for (int width = thread.count() / 2; width > 0; width /= 2) {
    thread.Sync();
    if (thread.index() < width) {
      value = merge(value, shared[thread.index() + width]);
      shared.Put(thread.index(), value);
    }
  }
  thread.Sync();
  value = shared[0];
  // The shared memory may be reused from here on.
  thread.Sync();
  return value;
}

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_BLOCK_FOLD_H_
