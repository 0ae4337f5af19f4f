// A block's share of the tiles of a launch (tensor_table.h).
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

// Calls f(tensor, begin, count) for each tile that the block handles. `begin` is the tile's first element, and the
// tensor has `count` elements from there on, possibly more than a tile. All threads of the block must call it. `shared`
// has space for one tensor.
//
// Blocks that run at a time handle neighboring tiles, so that few pages of memory are in use: if every block had its
// own range of gigabytes of tensors, addresses would be translated anew all the time, at a third of the speed.
template <typename Thread, typename T, typename Shared, typename F>
WEFT_DEVICE void ForTiles(Thread& thread, const TensorTable<T>& table, const T& one, const Shared& shared, F f) {
  const bool many = table.tensors != nullptr;
  const int64_t tiles = many ? table.tiles : (one.elements + kTileElements - 1) / kTileElements;
  int64_t t = -1, next = many ? TensorOfTile(table, thread.block()) : 0;
  for (int64_t tile = thread.block(); tile < tiles; tile += thread.blocks()) {
    if (many) {
      while (table.ends[next] <= tile) ++next;
    }
    if (next != t) {
      t = next;
      // Wait until no thread reads the tensor before this one.
      thread.Sync();
      if (thread.index() == 0) shared.Put(0, many ? table.tensors[t] : one);
      thread.Sync();
    }
    const int64_t begin = (tile - (many && t > 0 ? table.ends[t - 1] : 0)) * kTileElements;
    f(shared[0], begin, shared[0].elements - begin);
  }
}

// Calls f(first, count) for the eight elements of a tile that the thread handles: the tensor has `count` elements from
// `first` on, at least one.
template <typename Thread, typename F>
WEFT_DEVICE void EightOfTile(Thread& thread, int64_t begin, int64_t count, F f) {
  const int64_t first = thread.index() * kBlock;
  if (first < count) f(begin + first, count - first);
}

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TILE_WALK_H_
