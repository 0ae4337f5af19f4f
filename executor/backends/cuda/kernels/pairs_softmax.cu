// One pass over memory: the row of a query and head stays in registers. A warp has a row, a block if it is long.
#include "executor/backends/cuda/kernels/pairs_softmax.h"
#include "executor/backends/cuda/kernels/rows.h"

namespace weft::cuda {
namespace {

// Calls f(x, first) for the thread's eights of a row, which it keeps (kHeld of them), or, with kHeld 0, loads anew for
// every call of Each.
template <typename C, int kHeld, typename Thread, typename LoadEight>
struct Eights {
  const RowShare<Thread>& share;
  int64_t columns;
  LoadEight load;
  C kept[kHeld == 0 ? 1 : kHeld][kBlock];

  WEFT_DEVICE Eights(const RowShare<Thread>& of, int64_t n, LoadEight how) : share(of), columns(n), load(how) {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) load(share.First(i), kept[i]);
    }
  }
  template <typename F>
  WEFT_DEVICE void Each(F f) {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) f(kept[i], share.First(i));
    } else {
      for (int64_t first = share.First(0); first < columns; first += int64_t{share.team} * kBlock) {
        load(first, kept[0]);
        f(kept[0], first);
      }
    }
  }
};

template <typename C, Type S, int kHeld>
struct Softmax {
  static constexpr int kMaxThreads = 512;
  PairsSoftmax args;
  int64_t rows;
  bool per_warp;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const RowShare<Thread> share(thread, per_warp);
    if (per_warp && share.row >= rows) return;
    const int64_t columns = args.shape.sequence, begin = share.row * columns;
    const bool aligned = columns % kBlock == 0;
    // The keys that the query sees.
    const int64_t query = Modulo(Divide(share.row, args.shape.heads), columns);
    const int64_t end = args.causal ? query + 1 : columns;
    const int64_t from = args.causal && args.window > 0 ? Largest(int64_t{0}, end - args.window) : 0;
    // Scores that it sees, -infinity elsewhere; eights without any are not read.
    const auto load = [&](int64_t first, C(&x)[kBlock]) {
      const bool any = first < end && first + kBlock > from;
      if (any) LoadSome<C, S>(args.s, begin + first, columns - first, aligned, x);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) x[i] = any && first + i >= from && first + i < end ? x[i] : C(-INFINITY);
    };
    Eights<C, kHeld, Thread, decltype(load)> row(share, columns, load);
    C most = C(-INFINITY);
    row.Each([&](C(&x)[kBlock], int64_t) {
#pragma unroll
      for (int i = 0; i < kBlock; ++i) most = Largest(most, x[i]);
    });
    most = share.Most(most);
    C sum = 0;
    row.Each([&](C(&x)[kBlock], int64_t first) {
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        // What is not seen stays 0 even where nothing that is seen has a finite score.
        x[i] = first + i >= from && first + i < end ? Exp(x[i] - most) : C(0);
        sum += x[i];
      }
    });
    const C inverse = C(1) / share.Sum(sum);
    row.Each([&](C(&x)[kBlock], int64_t first) {
      if (first >= columns) return;
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        if constexpr (kHeld == 0) x[i] = first + i >= from && first + i < end ? Exp(x[i] - most) : C(0);
        x[i] = first + i >= from && first + i < end ? x[i] * inverse : C(0);
      }
      // A thread writes what it alone has read: s and p may be the same.
      StoreSome<C, S>(args.p, begin + first, columns - first, aligned, x);
    });
  }
};

template <typename C, Type S, int kHeld>
struct SoftmaxGradient {
  static constexpr int kMaxThreads = 512;
  PairsSoftmaxGradient args;
  int64_t rows;
  bool per_warp;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const RowShare<Thread> share(thread, per_warp);
    if (per_warp && share.row >= rows) return;
    const int64_t columns = args.shape.sequence, begin = share.row * columns;
    const bool aligned = columns % kBlock == 0;
    const auto load_p = [&](int64_t first, C(&x)[kBlock]) {
      LoadSome<C, S>(args.p, begin + first, columns - first, aligned, x);
    };
    const auto load_dp = [&](int64_t first, C(&x)[kBlock]) {
      LoadSome<C, S>(args.dp, begin + first, columns - first, aligned, x);
    };
    // p is small enough for the cache when it is read again.
    Eights<C, kHeld, Thread, decltype(load_dp)> row(share, columns, load_dp);
    C sum = 0;
    row.Each([&](C(&dp)[kBlock], int64_t first) {
      C p[kBlock];
      load_p(first, p);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) sum += dp[i] * p[i];
    });
    sum = share.Sum(sum);
    row.Each([&](C(&dp)[kBlock], int64_t first) {
      if (first >= columns) return;
      C p[kBlock];
      load_p(first, p);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) dp[i] = p[i] * (dp[i] - sum);
      StoreSome<C, S>(args.ds, begin + first, columns - first, aligned, dp);
    });
  }
};

// A warp or block per row, with as many registers as rows of this length take.
template <template <typename, Type, int> typename Kernel, typename Args>
Outcome LaunchRows(const Args& args, std::initializer_list<Array> arrays, void* stream) {
  const int64_t rows = args.shape.sequences * args.shape.sequence * args.shape.heads;
  const RowLayout layout = RowLayout::Of(rows, args.shape.sequence);
  const auto launch = [&](const auto& kernel) {
    return LaunchKernel(kernel, layout.blocks, layout.threads, kBlockSumBytes, stream);
  };
  return WithTypes(args.in_double, arrays, [&]<typename C, Type S>() {
    switch (layout.held) {
      case 2:
        return launch(Kernel<C, S, 2>{args, rows, layout.per_warp});
      case 4:
        return launch(Kernel<C, S, 4>{args, rows, layout.per_warp});
      default:
        return launch(Kernel<C, S, 0>{args, rows, layout.per_warp});
    }
  });
}

}  // namespace

Outcome Launch(const PairsSoftmax& args, void* stream) { return LaunchRows<Softmax>(args, {args.s, args.p}, stream); }

Outcome Launch(const PairsSoftmaxGradient& args, void* stream) {
  return LaunchRows<SoftmaxGradient>(args, {args.dp, args.p, args.ds}, stream);
}

}  // namespace weft::cuda
