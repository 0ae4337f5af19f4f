// The backward kernel of a norm together with sums over its rows: the gradients of its weights and of the bias before
// the norm. A block sums a chunk of rows, one row at a time, in turns. A turn adds the same rows in the same order as
// one warp of ColumnSums, so the results have the same bits.
#include "executor/backends/cuda/kernels/column_chunks.h"
#include "executor/backends/cuda/kernels/norm.h"
#include "executor/backends/cuda/kernels/norm_rows.h"

namespace weft::exec::cuda {
namespace {

constexpr int kHeld = 2;

// kCentered: makes sums of dy. kBias: makes sums of (the norm's gradient + the residual's). Sums of dy z are always
// made.
template <typename C, Type S, bool kCentered, bool kBias>
struct BackwardWithSums {
  static constexpr int kMaxThreads = kMaxRowThreads;
  static constexpr int kOfThread = kHeld * kBlock;
  // Results in the order of ColumnSums, without those that are not made.
  static constexpr int kResults = 1 + (kCentered ? 1 : 0) + (kBias ? 1 : 0);
  static constexpr int kPlain = 0, kProducts = kCentered ? 1 : 0, kBeside = kResults - 1;
  Backward<C, S, kHeld, true, kCentered && kBias> rows;
  ColumnSums sums;
  int64_t rows_of_chunk;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const RowShare<Thread> share(thread, /*by_warp=*/false);
    const int64_t begin = thread.block() * rows_of_chunk, end = Least(rows.a.rows, begin + rows_of_chunk);
    // Each thread has its own totals. Neighboring threads access neighboring banks.
    const auto totals = thread.template Shared<C>(kBlockSumBytes, int64_t{kResults} * kOfThread * thread.count());
    const auto place = [&](int result, int i) {
      return (int64_t{result} * kOfThread + i) * thread.count() + thread.index();
    };
#pragma unroll
    for (int result = 0; result < kResults; ++result) {
#pragma unroll
      for (int i = 0; i < kOfThread; ++i) totals.Put(place(result, i), C(0));
    }
#pragma unroll 1
    for (int turn = 0; turn < kColumnTurns; ++turn) {
      C parts[kResults][kOfThread] = {};
#pragma unroll 1
      for (int64_t row = begin + turn; row < end; row += kColumnTurns) {
        rows.Row(share, row, [&](int k, const C(&z)[kBlock], const Eight<C, S>& dy, const Eight<C, S>& sum) {
          C of_dy[kBlock];
          dy.Get(of_dy);
#pragma unroll
          for (int i = 0; i < kBlock; ++i) {
            if constexpr (kCentered) parts[kPlain][k * kBlock + i] += of_dy[i];
            parts[kProducts][k * kBlock + i] += of_dy[i] * z[i];
          }
          if constexpr (kBias) {
            C of_sum[kBlock];
            sum.Get(of_sum);
#pragma unroll
            for (int i = 0; i < kBlock; ++i) parts[kBeside][k * kBlock + i] += of_sum[i];
          }
        });
      }
#pragma unroll
      for (int result = 0; result < kResults; ++result) {
#pragma unroll
        for (int i = 0; i < kOfThread; ++i) {
          totals.Put(place(result, i), totals[place(result, i)] + parts[result][i]);
        }
      }
    }
#pragma unroll
    for (int result = 0; result < kResults; ++result) {
      const int of_all = kBias && result == kBeside ? 2 : kCentered && result == kPlain ? 0 : 1;
      C* const to = static_cast<C*>(sums.scratch) + (thread.block() * kColumnResults + of_all) * rows.a.columns;
#pragma unroll
      for (int i = 0; i < kOfThread; ++i) {
        const int64_t column = share.First(i / kBlock) + i % kBlock;
        if (column < rows.a.columns) to[column] = totals[place(result, i)];
      }
    }
  }
};

// Like BackwardWithSums, for rows of whole eights of 16-bit numbers and for blocks that are small enough. Each row is
// copied to shared memory while earlier rows are summed, so a block does not wait for its loads. A thread copies
// exactly the elements that it reads itself, so only the two sums over a row need a barrier, and they share one.
template <Type S, bool kCentered, bool kBias>
struct StagedBackwardWithSums {
  static constexpr int kMaxThreads = 256, kMinBlocks = 2;
  using C = float;
  using Sums = BackwardWithSums<C, S, kCentered, kBias>;
  static constexpr int kOfThread = Sums::kOfThread, kResults = Sums::kResults;
  static constexpr int kStages = 2, kArrays = 3, kDy = 0, kX = 1, kResidual = 2;
  static constexpr int kMaxWarps = kMaxThreads / kWarp;
  // If true, weights come from L1 in every pass, because the sums need the registers.
  static constexpr bool kAsksAgain = kCentered && kBias;
  static_assert(kStages * 2 * kMaxWarps * sizeof(C) <= kBlockSumBytes);
  NormBackward a;
  ColumnSums sums;
  int64_t rows_of_chunk;

  static constexpr int64_t kStageBytes = int64_t{kArrays} * kHeld * sizeof(Words);
  static int64_t SharedBytes(int threads) {
    return kBlockSumBytes + threads * (kStages * kStageBytes + int64_t{kResults} * kOfThread * int64_t{sizeof(C)});
  }

  // Returns the first element of the thread's k-th eight.
  template <typename Thread>
  WEFT_DEVICE static int First(const Thread& thread, int k) {
    return (k * thread.count() + thread.index()) * kBlock;
  }

  struct Statistics {
    C mean = 0, rstd = 0;
  };

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    // Positions within a row or a chunk have 32 bits, because registers are scarce.
    const int64_t begin = thread.block() * rows_of_chunk;
    const int rows = static_cast<int>(Least(a.rows - begin, rows_of_chunk)), columns = static_cast<int>(a.columns);
    const auto totals = thread.template Shared<C>(kBlockSumBytes + kStages * kStageBytes * thread.count(),
                                                  int64_t{kResults} * kOfThread * thread.count());
    const auto place = [&](int result, int i) { return (result * kOfThread + i) * thread.count() + thread.index(); };
    const auto staged = [&](int stage, int array, int k) {
      return static_cast<int>(kBlockSumBytes) +
             (((stage * kArrays + array) * kHeld + k) * thread.count() + thread.index()) *
                 static_cast<int>(sizeof(Words));
    };
    // Returns the row after `row` in the order of turns, or `rows` at the end.
    const auto next = [&](int row) {
      if (row + kColumnTurns < rows) return row + kColumnTurns;
      const int turn = row % kColumnTurns + 1;
      return row < rows && turn < kColumnTurns ? Least(turn, rows) : rows;
    };
    const auto ask = [&](int row_of_chunk, int stage) {
      Statistics own;
      if (row_of_chunk < rows) {
        const int64_t row = begin + row_of_chunk;
        const auto copy = [&](int array, const Array& from) {
          const auto* const data = static_cast<const uint16_t*>(from.data) + row * columns;
#pragma unroll
          for (int k = 0; k < kHeld; ++k) {
            if (First(thread, k) < columns) thread.CopyAsync(staged(stage, array, k), data + First(thread, k));
          }
        };
        copy(kDy, a.dy);
        copy(kX, a.x);
        copy(kResidual, a.residual);
        if constexpr (kCentered) own.mean = Statistic<C, S>(a.mean, row);
        own.rstd = Statistic<C, S>(a.rstd, row);
      }
      thread.EndCopies();
      return own;
    };
#pragma unroll
    for (int result = 0; result < kResults; ++result) {
#pragma unroll
      for (int i = 0; i < kOfThread; ++i) totals.Put(place(result, i), C(0));
    }
    Eight<C, S> gamma[kHeld];
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      if constexpr (!kAsksAgain) gamma[k].Ask(a.gamma, First(thread, k), columns - First(thread, k), true);
    }
    Statistics now = ask(0, 0), later = ask(next(0), 1);
    C parts[kResults][kOfThread] = {};
    int stage = 0;
#pragma unroll 1
    for (int row = 0; row < rows; stage ^= 1) {
      thread.template AwaitCopies<kStages - 1>();
      Row(thread, begin + row, stage, now, gamma, staged, parts);
      const int following = next(row);
      now = later;
      later = ask(next(following), stage);
      // After the last row of a turn, add the turn's sums to the totals. After the very last row, `following` is
      // `rows`.
      if (row + kColumnTurns >= rows) {
#pragma unroll
        for (int result = 0; result < kResults; ++result) {
#pragma unroll
          for (int i = 0; i < kOfThread; ++i) {
            totals.Put(place(result, i), totals[place(result, i)] + parts[result][i]);
            parts[result][i] = 0;
          }
        }
      }
      row = following;
    }
#pragma unroll
    for (int result = 0; result < kResults; ++result) {
      const int of_all = kBias && result == Sums::kBeside ? 2 : kCentered && result == Sums::kPlain ? 0 : 1;
      C* const to = static_cast<C*>(sums.scratch) + (thread.block() * kColumnResults + of_all) * columns;
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        if (First(thread, k) >= columns) continue;
#pragma unroll
        for (int i = 0; i < kBlock; ++i) to[First(thread, k) + i] = totals[place(result, k * kBlock + i)];
      }
    }
  }

  // Computes a row with the same operations as Backward::Row.
  template <typename Thread, typename Staged>
  WEFT_DEVICE void Row(Thread& thread, int64_t row, int stage, const Statistics& of_row, Eight<C, S> (&gamma)[kHeld],
                       const Staged& staged, C (&parts)[kResults][kOfThread]) const {
    const auto get = [&](int array, int k) {
      Eight<C, S> eight = {};
      if (First(thread, k) < static_cast<int>(a.columns)) eight.words[0] = thread.SharedWords(staged(stage, array, k));
      return eight;
    };
    const auto terms = [&](int k, C(&g)[kBlock], C(&z)[kBlock]) {
      C weight[kBlock];
      get(kDy, k).Get(g);
      get(kX, k).Get(z);
      if constexpr (kAsksAgain) {
        Eight<C, S> again;
        again.Ask(a.gamma, First(thread, k), static_cast<int>(a.columns) - First(thread, k), true);
        again.Get(weight);
      } else {
        gamma[k].Pack();
        gamma[k].Get(weight);
      }
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        g[i] *= weight[i];
        z[i] = (z[i] - of_row.mean) * of_row.rstd;
      }
    };
    C sum_g = 0, sum_gz = 0;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      C g[kBlock], z[kBlock];
      terms(k, g, z);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        sum_g += g[i];
        sum_gz += g[i] * z[i];
      }
    }
    SumBoth(thread, stage, sum_g, sum_gz);
    const C columns = static_cast<C>(a.columns);
    const C mean_g = kCentered ? sum_g / columns : C(0), mean_gz = sum_gz / columns;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      if (First(thread, k) >= static_cast<int>(a.columns)) continue;
      const int64_t at = row * a.columns + First(thread, k);
      C g[kBlock], z[kBlock], before[kBlock];
      terms(k, g, z);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) g[i] = of_row.rstd * ((g[i] - mean_g) - z[i] * mean_gz);
      Eight<C, S> stored;
      stored.Set(a.dx, g);
      StoreWords(static_cast<uint16_t*>(a.dx.data) + at, stored.words[0]);
      stored.Get(g);
      get(kResidual, k).Get(before);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) g[i] = before[i] + g[i];
      stored.Set(a.sum, g);
      StoreWords(static_cast<uint16_t*>(a.sum.data) + at, stored.words[0]);
      C of_dy[kBlock], of_sum[kBlock];
      get(kDy, k).Get(of_dy);
      stored.Get(of_sum);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        if constexpr (kCentered) parts[Sums::kPlain][k * kBlock + i] += of_dy[i];
        parts[Sums::kProducts][k * kBlock + i] += of_dy[i] * z[i];
        if constexpr (kBias) parts[Sums::kBeside][k * kBlock + i] += of_sum[i];
      }
    }
  }

  // Sums both numbers as BlockSum does. Rows alternate between two places in shared memory. That is safe: a thread at
  // the row after the next one has passed the barrier of the next row, which all threads reach after their reads for
  // this row.
  template <typename Thread>
  WEFT_DEVICE static void SumBoth(Thread& thread, int turn, C& plain, C& products) {
    if constexpr (kCentered) plain = WarpSum(thread, plain);
    products = WarpSum(thread, products);
    const auto of_warps = thread.template Shared<C>(int64_t{turn} * 2 * kMaxWarps * int64_t{sizeof(C)}, 2 * kMaxWarps);
    if (thread.lane() == 0) {
      if constexpr (kCentered) of_warps.Put(thread.warp(), plain);
      of_warps.Put(kMaxWarps + thread.warp(), products);
    }
    thread.Sync();
    plain = products = 0;
    for (int i = 0; i < thread.warps(); ++i) {
      if constexpr (kCentered) plain += of_warps[i];
      products += of_warps[kMaxWarps + i];
    }
  }
};

}  // namespace

bool HasSums(const NormBackward& norm) {
  const RowLayout layout = RowLayout::Of(norm.rows, norm.columns);
  return !layout.per_warp && layout.held == kHeld && !norm.in_double && !norm.accumulate && norm.sum.data != nullptr;
}

Outcome Launch(const NormBackwardSums& args, void* stream) {
  const NormBackward& norm = args.norm;
  if (!HasSums(norm)) return "this norm has no sums over rows";
  const RowLayout layout = RowLayout::Of(norm.rows, norm.columns);
  ColumnSums sums = args.sums;
  sums.rows = norm.rows;
  sums.columns = norm.columns;
  const Outcome first =
      WithEights(false, norm.columns % kBlock == 0, {norm.dy, norm.x, norm.gamma, norm.dx, norm.residual, norm.sum},
                 {norm.mean, norm.rstd}, [&]<typename C, Type S>() {
                   // There is no launch in double: its sums would not fit.
                   if constexpr (sizeof(C) == sizeof(float)) {
                     const auto launch = [&]<bool kCentered, bool kBias>() {
                       if constexpr (kHalves<S>) {
                         using Staged = StagedBackwardWithSums<S, kCentered, kBias>;
                         if (layout.threads <= Staged::kMaxThreads) {
                           return LaunchKernel(Staged{norm, sums, sums.RowsOfChunk()}, sums.Chunks(), layout.threads,
                                               Staged::SharedBytes(layout.threads), stream);
                         }
                       }
                       using Kernel = BackwardWithSums<C, S, kCentered, kBias>;
                       const int64_t shared = kBlockSumBytes + int64_t{Kernel::kResults} * Kernel::kOfThread *
                                                                   layout.threads * static_cast<int64_t>(sizeof(C));
                       return LaunchKernel(Kernel{{norm, false}, sums, sums.RowsOfChunk()}, sums.Chunks(),
                                           layout.threads, shared, stream);
                     };
                     const bool centered = norm.mean.data != nullptr, bias = sums.beside.data != nullptr;
                     if (centered && bias) return launch.template operator()<true, true>();
                     if (centered) return launch.template operator()<true, false>();
                     if (bias) return launch.template operator()<false, true>();
                     return launch.template operator()<false, false>();
                   } else {
                     return Outcome("sums over the rows of a norm are not supported in fp64");
                   }
                 });
  return first != nullptr ? first : AddColumnChunks(sums, stream);
}

}  // namespace weft::exec::cuda
