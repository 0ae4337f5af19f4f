// Reads each row once if it fits into registers: after its sums are computed, the row stays there, in its stored form,
// until its results are written. Longer rows are read again in every pass.
#include "executor/backends/cuda/kernels/eights.h"
#include "executor/backends/cuda/kernels/norm.h"
#include "executor/backends/cuda/kernels/norm_rows.h"
#include "executor/backends/cuda/kernels/rows.h"

namespace weft::exec::cuda {
namespace {

// kHeld: eights of a row that a thread keeps; 0 = it reads them again in every pass. kSums: the kernel first computes x
// = a + b.
template <typename C, Type S, int kHeld, bool kSums>
struct Forward {
  static constexpr int kMaxThreads = kMaxRowThreads;
  static constexpr int kMinBlocks = S == Type::kNone ? 1 : 2;
  static constexpr int kKept = kHeld == 0 ? 1 : kHeld;
  Norm a;
  bool per_warp;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const RowShare<Thread> share(thread, per_warp);
    if (per_warp && share.row >= a.rows) return;
    const int64_t begin = share.row * a.columns;
    const bool aligned = a.columns % kBlock == 0, centered = a.mean.data != nullptr;
    Eight<C, S> kept[kKept], gamma[kKept], beta[kKept];
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int64_t first = share.First(i), count = a.columns - first;
      kept[i].Ask(kSums ? a.a : a.x, begin + first, count, aligned);
    }
    if constexpr (kSums) MakeRow(share, begin, aligned, kept);
    // The weights do not depend on the sums, so they are loaded while the row is summed.
    const auto ask_weights = [&](int i, int64_t first) {
      gamma[i].Ask(a.gamma, first, a.columns - first, aligned);
      if (centered) beta[i].Ask(a.beta, first, a.columns - first, aligned);
    };
    constexpr bool kEarly = kHalves<S> && kHeld == 2;
    if constexpr (kEarly) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) ask_weights(i, share.First(i));
    }
    // Calls f(x, i, first) for the thread's eights, where i is the index of the kept eight.
    const auto each = [&](auto f) {
      C x[kBlock];
      if constexpr (kHeld > 0) {
#pragma unroll
        for (int i = 0; i < kHeld; ++i) {
          kept[i].Pack();
          kept[i].Get(x);
          f(x, i, share.First(i));
        }
      } else {
        for (int64_t first = share.First(0); first < a.columns; first += int64_t{share.team} * kBlock) {
          kept[0].Ask(a.x, begin + first, a.columns - first, aligned);
          kept[0].Get(x);
          f(x, 0, first);
        }
      }
    };
    C mean = 0;
    if (centered) {
      C sum = 0;
      each([&](const C(&x)[kBlock], int, int64_t) {
#pragma unroll
        for (int i = 0; i < kBlock; ++i) sum += x[i];
      });
      mean = share.Sum(sum) / static_cast<C>(a.columns);
    }
    C squares = 0;
    each([&](const C(&x)[kBlock], int, int64_t first) {
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        squares += InRow<S>(i, a.columns - first) ? (x[i] - mean) * (x[i] - mean) : C(0);
      }
    });
    const C rstd = C(1) / Sqrt(share.Sum(squares) / static_cast<C>(a.columns) + static_cast<C>(a.epsilon));
    each([&](C(&x)[kBlock], int k, int64_t first) {
      if (first >= a.columns) return;
      if constexpr (!kEarly) ask_weights(k, first);
      C weight[kBlock];
      gamma[k].Get(weight);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) x[i] = (x[i] - mean) * rstd * weight[i];
      if (centered) {
        beta[k].Get(weight);
#pragma unroll
        for (int i = 0; i < kBlock; ++i) x[i] += weight[i];
      }
      StoreEight<C, S>(a.y, begin + first, a.columns - first, aligned, x);
    });
    if (share.place == 0) {
      if (centered) Store<C>(a.mean, share.row, mean);
      Store<C>(a.rstd, share.row, rstd);
    }
  }

  // x = a + b. `kept` already holds the terms of a, and receives x in its stored form.
  template <typename Share>
  WEFT_DEVICE void MakeRow(const Share& share, int64_t begin, bool aligned, Eight<C, S> (&kept)[kKept]) const {
    const auto add = [&](Eight<C, S>& one, const Eight<C, S>& other, int64_t first) {
      C x[kBlock], term[kBlock];
      one.Get(x);
      other.Get(term);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) x[i] += term[i];
      StoreEight<C, S>(a.x, begin + first, a.columns - first, aligned, x);
      one.Set(a.x, x);
    };
    if constexpr (kHeld > 0) {
      Eight<C, S> other[kHeld];
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        other[i].Ask(a.b, begin + share.First(i), a.columns - share.First(i), aligned);
      }
#pragma unroll
      for (int i = 0; i < kHeld; ++i) add(kept[i], other[i], share.First(i));
    } else {
      // The later passes read x from memory. Each element is read by the thread that wrote it, so no barrier is needed.
      for (int64_t first = share.First(0); first < a.columns; first += int64_t{share.team} * kBlock) {
        Eight<C, S> other;
        kept[0].Ask(a.a, begin + first, a.columns - first, aligned);
        other.Ask(a.b, begin + first, a.columns - first, aligned);
        add(kept[0], other, first);
      }
    }
  }
};

template <typename C, Type S, int kHeld, bool kSums>
using RowBackward = Backward<C, S, kHeld, kSums>;

template <template <typename, Type, int, bool> typename Kernel, bool kSums, typename Args>
Outcome LaunchRows(const Args& args, std::initializer_list<Array> arrays, std::initializer_list<Array> statistics,
                   void* stream) {
  if (args.rows == 0 || args.columns == 0) return nullptr;
  const RowLayout layout = RowLayout::Of(args.rows, args.columns);
  return WithEights(args.in_double, args.columns % kBlock == 0, arrays, statistics, [&]<typename C, Type S>() {
    const auto launch = [&](const auto& kernel) {
      return LaunchKernel(kernel, layout.blocks, layout.threads, layout.per_warp ? 0 : kBlockSumBytes, stream);
    };
    if (layout.held == 2) return launch(Kernel<C, S, 2, kSums>{args, layout.per_warp});
    // Four eights of doubles do not fit into registers.
    if constexpr (sizeof(C) == 4) {
      if (layout.held == 4) return launch(Kernel<C, S, 4, kSums>{args, layout.per_warp});
    }
    return launch(Kernel<C, S, 0, kSums>{args, layout.per_warp});
  });
}

}  // namespace

Outcome Launch(const Norm& norm, void* stream) {
  if (norm.a.data != nullptr) {
    return LaunchRows<Forward, true>(norm, {norm.x, norm.a, norm.b, norm.gamma, norm.beta, norm.y}, {}, stream);
  }
  return LaunchRows<Forward, false>(norm, {norm.x, norm.gamma, norm.beta, norm.y}, {}, stream);
}

Outcome Launch(const NormBackward& norm, void* stream) {
  if (norm.sum.data != nullptr) {
    return LaunchRows<RowBackward, true>(norm, {norm.dy, norm.x, norm.gamma, norm.dx, norm.residual, norm.sum},
                                         {norm.mean, norm.rstd}, stream);
  }
  return LaunchRows<RowBackward, false>(norm, {norm.dy, norm.x, norm.gamma, norm.dx}, {norm.mean, norm.rstd}, stream);
}

}  // namespace weft::exec::cuda
