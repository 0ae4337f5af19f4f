// The backward kernel of a norm, row by row. After its sums are computed, a row stays in registers, in its stored form,
// until its results are written. Rows that are too long for registers are read again in every pass.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_NORM_ROWS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_NORM_ROWS_H_

#include "executor/backends/cuda/kernels/eights.h"
#include "executor/backends/cuda/kernels/norm.h"
#include "executor/backends/cuda/kernels/rows.h"

namespace weft::exec::cuda {

inline constexpr int kMaxRowThreads = 512;

// An eight of 16-bit numbers takes four registers, so with two eights per thread everything that a row needs fits.
template <Type S>
constexpr bool kHalves = S == Type::kBf16 || S == Type::kFp16;

// With g = dy gamma and z = (x - mean) rstd: dx = rstd (g - mean(g) - z mean(g z)), without mean(g) for the root mean
// square norm. With kSums, the kernel also stores the sum of dx and the residual's gradient. With kAsksAgain, it loads
// the weights again in every pass, because the registers are needed for something else.
template <typename C, Type S, int kHeld, bool kSums, bool kAsksAgain = false>
struct Backward {
  static constexpr int kMaxThreads = kMaxRowThreads;
  static constexpr int kMinBlocks = kHalves<S> || (S == Type::kFp32 && kHeld <= 2) ? 2 : 1;
  static constexpr int kKept = kHeld == 0 ? 1 : kHeld;
  // kEarly: the registers suffice to load early the values that dx is added to. kKeepsWeights: they also suffice to
  // keep the weights until they are used again.
  static constexpr bool kEarly = kHalves<S> && kHeld == 2, kKeepsWeights = kEarly && !kAsksAgain;
  NormBackward a;
  bool per_warp;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const RowShare<Thread> share(thread, per_warp);
    if (per_warp && share.row >= a.rows) return;
    Row(share, share.row, [](int, const C(&)[kBlock], const Eight<C, S>&, const Eight<C, S>&) {});
  }

  // Computes the row of the calling team. Afterwards calls f(i, z, dy, sum) for the thread's eights in the row, where
  // `sum` is the result as it is stored (dx + residual with kSums).
  template <typename Share, typename F>
  WEFT_DEVICE void Row(const Share& share, int64_t row, F f) const {
    const int64_t begin = row * a.columns;
    const bool aligned = a.columns % kBlock == 0, centered = a.mean.data != nullptr;
    Eight<C, S> dy[kKept], x[kKept], gamma[kKept], old[kKept];
    const auto ask = [&](int i, int64_t first) {
      const int64_t count = a.columns - first;
      dy[i].Ask(a.dy, begin + first, count, aligned);
      x[i].Ask(a.x, begin + first, count, aligned);
      if constexpr (kKeepsWeights) gamma[i].Ask(a.gamma, first, count, aligned);
    };
    const auto ask_old = [&](int i, int64_t first) {
      if constexpr (kSums) {
        old[i].Ask(a.residual, begin + first, a.columns - first, aligned);
      } else if (a.accumulate) {
        old[i].Ask(a.dx, begin + first, a.columns - first, aligned);
      }
    };
#pragma unroll
    for (int i = 0; i < kHeld; ++i) ask(i, share.First(i));
    if constexpr (kEarly) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) ask_old(i, share.First(i));
    }
    const C mean = centered ? Statistic<C, S>(a.mean, row) : C(0);
    const C rstd = Statistic<C, S>(a.rstd, row);
    // Calls with(g, z, i, first). Elements of g after the end are 0.
    const auto each = [&](auto with) {
      const auto call = [&](int i, int64_t first) {
        C g[kBlock], z[kBlock], weight[kBlock];
        if constexpr (!kKeepsWeights) gamma[i].Ask(a.gamma, first, a.columns - first, aligned);
        dy[i].Get(g);
        x[i].Get(z);
        gamma[i].Get(weight);
#pragma unroll
        for (int j = 0; j < kBlock; ++j) {
          g[j] *= weight[j];
          z[j] = (z[j] - mean) * rstd;
        }
        with(g, z, i, first);
      };
      if constexpr (kHeld > 0) {
#pragma unroll
        for (int i = 0; i < kHeld; ++i) {
          dy[i].Pack();
          x[i].Pack();
          if constexpr (kKeepsWeights) gamma[i].Pack();
          call(i, share.First(i));
        }
      } else {
        for (int64_t first = share.First(0); first < a.columns; first += int64_t{share.team} * kBlock) {
          ask(0, first);
          call(0, first);
        }
      }
    };
    C sum_g = 0, sum_gz = 0;
    each([&](const C(&g)[kBlock], const C(&z)[kBlock], int, int64_t) {
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        sum_g += g[i];
        sum_gz += g[i] * z[i];
      }
    });
    const C columns = static_cast<C>(a.columns);
    const C mean_g = centered ? share.Sum(sum_g) / columns : C(0);
    const C mean_gz = share.Sum(sum_gz) / columns;
    each([&](C(&g)[kBlock], const C(&z)[kBlock], int k, int64_t first) {
      if (first >= a.columns) return;
      if constexpr (!kEarly) ask_old(k, first);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) g[i] = rstd * ((g[i] - mean_g) - z[i] * mean_gz);
      C before[kBlock];
      if constexpr (kSums) {
        StoreEight<C, S>(a.dx, begin + first, a.columns - first, aligned, g);
        Eight<C, S> stored;
        stored.Set(a.dx, g);
        stored.Get(g);
      }
      if (kSums || a.accumulate) {
        old[k].Get(before);
#pragma unroll
        for (int i = 0; i < kBlock; ++i) g[i] = before[i] + g[i];
      }
      StoreEight<C, S>(kSums ? a.sum : a.dx, begin + first, a.columns - first, aligned, g);
      Eight<C, S> sum;
      sum.Set(kSums ? a.sum : a.dx, g);
      f(k, z, dy[k], sum);
    });
  }
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_NORM_ROWS_H_
