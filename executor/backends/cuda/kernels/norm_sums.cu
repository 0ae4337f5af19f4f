// The backward of a norm with what is summed over its rows: gradients of its weights, and of the bias behind which it
// stands. A block has a chunk of rows and one of them at a time; what ColumnSums gives to a warp of its own is a turn
// here, so that the order of sums is the same.
#include "executor/backends/cuda/kernels/column_chunks.h"
#include "executor/backends/cuda/kernels/norm.h"
#include "executor/backends/cuda/kernels/norm_rows.h"

namespace weft::cuda {
namespace {

constexpr int kHeld = 2;

// kCentred: there are sums of dy; kBias: of what the norm's gradient and the residual's add up to. Those of dy z
// always.
template <typename C, Type S, bool kCentred, bool kBias>
struct BackwardWithSums {
  static constexpr int kMaxThreads = kMostRowThreads;
  static constexpr int kOfThread = kHeld * kBlock;
  // In the order of ColumnSums' results, without those that are not made.
  static constexpr int kResults = 1 + (kCentred ? 1 : 0) + (kBias ? 1 : 0);
  static constexpr int kPlain = 0, kProducts = kCentred ? 1 : 0, kBeside = kResults - 1;
  Backward<C, S, kHeld, true, kCentred && kBias> rows;
  ColumnSums sums;
  int64_t rows_of_chunk;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const RowShare<Thread> share(thread, /*by_warp=*/false);
    const int64_t begin = thread.block() * rows_of_chunk, end = Least(rows.a.rows, begin + rows_of_chunk);
    // A thread's own, neighbouring threads in neighbouring banks.
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
            if constexpr (kCentred) parts[kPlain][k * kBlock + i] += of_dy[i];
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
      const int of_all = kBias && result == kBeside ? 2 : kCentred && result == kPlain ? 0 : 1;
      C* const to = static_cast<C*>(sums.scratch) + (thread.block() * kColumnResults + of_all) * rows.a.columns;
#pragma unroll
      for (int i = 0; i < kOfThread; ++i) {
        const int64_t column = share.First(i / kBlock) + i % kBlock;
        if (column < rows.a.columns) to[column] = totals[place(result, i)];
      }
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
  if (!HasSums(norm)) return "sums over the rows of a norm that has none";
  const RowLayout layout = RowLayout::Of(norm.rows, norm.columns);
  ColumnSums sums = args.sums;
  sums.rows = norm.rows;
  sums.columns = norm.columns;
  const Outcome first =
      WithEights(false, norm.columns % kBlock == 0, {norm.dy, norm.x, norm.gamma, norm.dx, norm.residual, norm.sum},
                 {norm.mean, norm.rstd}, [&]<typename C, Type S>() {
                   // Of double there is no launch, and no room for its sums.
                   if constexpr (sizeof(C) == sizeof(float)) {
                     const auto launch = [&]<bool kCentred, bool kBias>() {
                       using Kernel = BackwardWithSums<C, S, kCentred, kBias>;
                       const int64_t shared = kBlockSumBytes + int64_t{Kernel::kResults} * Kernel::kOfThread *
                                                                   layout.threads * static_cast<int64_t>(sizeof(C));
                       return LaunchKernel(Kernel{{norm, false}, sums, sums.RowsOfChunk()}, sums.Chunks(),
                                           layout.threads, shared, stream);
                     };
                     const bool centred = norm.mean.data != nullptr, bias = sums.beside.data != nullptr;
                     if (centred && bias) return launch.template operator()<true, true>();
                     if (centred) return launch.template operator()<true, false>();
                     if (bias) return launch.template operator()<false, true>();
                     return launch.template operator()<false, false>();
                   } else {
                     return Outcome("sums over the rows of a norm in double");
                   }
                 });
  return first != nullptr ? first : AddColumnChunks(sums, stream);
}

}  // namespace weft::cuda
