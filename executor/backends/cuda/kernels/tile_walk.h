// A block's share of the tiles of a launch (tensor_table.h). A block takes neighboring tiles, so that it handles few
// tensors.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TILE_WALK_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TILE_WALK_H_

#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/tensor_table.h"

namespace weft::exec::cuda {

inline constexpr int kTileThreads = 256;
static_assert(kTileThreads * kBlock == kTileElements);

// Returns a number of blocks that fills any device but is small enough for the fixed work of a block to cost little.
inline int64_t TileBlocks(int64_t tiles) {
  constexpr int64_t kMax = 2048;
  return tiles < kMax ? tiles : kMax;
}

// Returns the first tensor whose tiles end after `tile`.
template <typename T>
WEFT_DEVICE int64_t TensorOfTile(const TensorTable<T>& table, int64_t tile) {
  int64_t low = 0, high = table.count - 1;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (table.ends[middle] > tile) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Calls f(tensor, first, count) for each group of eight elements that the thread handles. `first` is the group's first
// element, and the tensor has `count` elements from there on, possibly more than eight. All threads of the block must
// call it. `shared` has space for one tensor.
template <typename Thread, typename T, typename Shared, typename F>
WEFT_DEVICE void ForTiles(Thread& thread, const TensorTable<T>& table, const T& one, const Shared& shared, F f) {
  const bool many = table.tensors != nullptr;
  const int64_t tiles = many ? table.tiles : (one.elements + kTileElements - 1) / kTileElements;
  int64_t tile = thread.block() * tiles / thread.blocks();
  const int64_t end = (thread.block() + 1) * tiles / thread.blocks();
  for (int64_t t = many ? TensorOfTile(table, tile) : 0; tile < end; ++t) {
    const int64_t begin = many && t > 0 ? table.ends[t - 1] : 0;
    const int64_t behind = many ? Least(table.ends[t], end) : end;
    if (thread.index() == 0) shared.Put(0, many ? table.tensors[t] : one);
    thread.Sync();
    for (; tile < behind; ++tile) {
      const int64_t first = (tile - begin) * kTileElements + thread.index() * kBlock;
      if (first < shared[0].elements) f(shared[0], first, shared[0].elements - first);
    }
    // After this, no thread reads the tensor in shared memory.
    thread.Sync();
  }
}

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TILE_WALK_H_
