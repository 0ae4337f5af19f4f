// Sums over rows of a matrix. One warp or one block handles a row. The order of additions depends only on the number of
// columns.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ROWS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ROWS_H_

#include "executor/backends/cuda/kernels/access.h"

namespace weft::exec::cuda {

// Returns the sum of x over the warp's lanes. Every lane gets the same bits.
template <typename C, typename Thread>
WEFT_DEVICE C WarpSum(Thread& thread, C x) {
#pragma unroll
  for (int mask = kWarp / 2; mask > 0; mask /= 2) x += thread.ShuffleXor(x, mask);
  return x;
}

template <typename C, typename Thread>
WEFT_DEVICE C WarpLargest(Thread& thread, C x) {
#pragma unroll
  for (int mask = kWarp / 2; mask > 0; mask /= 2) x = Largest(x, thread.ShuffleXor(x, mask));
  return x;
}

// Returns the sum of x over the lanes up to and including the calling lane.
template <typename C, typename Thread>
WEFT_DEVICE C WarpSumUpTo(Thread& thread, C x) {
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const C before = thread.Shuffle(x, (thread.lane() - step + kWarp) % kWarp);
    if (thread.lane() >= step) x += before;
  }
  return x;
}

// Shared memory that BlockSum needs.
inline constexpr int64_t kBlockSumBytes = 32 * 8;

// Returns the sum of x over the block, to every thread. Uses the first kBlockSumBytes of shared memory.
template <typename C, typename Thread>
WEFT_DEVICE C BlockSum(Thread& thread, C x) {
  x = WarpSum(thread, x);
  const auto sums = thread.template Shared<C>(0, thread.warps());
  thread.Sync();
  if (thread.lane() == 0) sums.Put(thread.warp(), x);
  thread.Sync();
  C total = 0;
  for (int i = 0; i < thread.warps(); ++i) total += sums[i];
  return total;
}

// Like BlockSum, for the largest value.
template <typename C, typename Thread>
WEFT_DEVICE C BlockLargest(Thread& thread, C x) {
  x = WarpLargest(thread, x);
  const auto largest = thread.template Shared<C>(0, thread.warps());
  thread.Sync();
  if (thread.lane() == 0) largest.Put(thread.warp(), x);
  thread.Sync();
  for (int i = 0; i < thread.warps(); ++i) x = Largest(x, largest[i]);
  return x;
}

// How the rows of a matrix are divided among the blocks of a grid.
struct RowLayout {
  int threads = 0;
  // True if each warp has a row; otherwise each block has one.
  bool per_warp = false;
  int64_t blocks = 0;
  // Eights of a row that each thread holds; 0 = too many for registers.
  int held = 0;

  static RowLayout Of(int64_t rows, int64_t columns) {
    constexpr int kThreads = 256, kMaxThreads = 512;
    RowLayout layout;
    layout.per_warp = columns <= kWarp * kBlock * 4;
    if (layout.per_warp) {
      layout.threads = kThreads;
      layout.blocks = CeilDivide(rows, kThreads / kWarp);
      layout.held = columns <= kWarp * kBlock * 2 ? 2 : 4;
      return layout;
    }
    layout.blocks = rows;
    layout.held = columns <= kMaxThreads * kBlock * 2 ? 2 : columns <= kMaxThreads * kBlock * 4 ? 4 : 0;
    const int64_t each = kBlock * (layout.held == 0 ? 4 : layout.held);
    const int64_t threads = CeilDivide(CeilDivide(columns, each), kWarp) * kWarp;
    layout.threads = static_cast<int>(threads < kMaxThreads ? threads : kMaxThreads);
    return layout;
  }
};

// A thread's share of a row.
template <typename Thread>
struct RowShare {
  Thread& thread;
  bool per_warp;
  int team;
  int place;
  int64_t row;

  WEFT_DEVICE RowShare(Thread& of, bool by_warp)
      : thread(of),
        per_warp(by_warp),
        team(by_warp ? kWarp : of.count()),
        place(by_warp ? of.lane() : of.index()),
        row(by_warp ? of.block() * of.warps() + of.warp() : of.block()) {}

  template <typename C>
  WEFT_DEVICE C Sum(C x) const {
    return per_warp ? WarpSum(thread, x) : BlockSum(thread, x);
  }
  template <typename C>
  WEFT_DEVICE C Most(C x) const {
    return per_warp ? WarpLargest(thread, x) : BlockLargest(thread, x);
  }
  // First element of the thread's i-th eight.
  WEFT_DEVICE int64_t First(int i) const { return (static_cast<int64_t>(i) * team + place) * kBlock; }
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ROWS_H_
