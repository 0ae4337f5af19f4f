// A row holds the scores of one query and head. It is read once if it fits into registers, else again in every pass.
// One warp handles a row, or one block if the row is long.
#include "executor/backends/cuda/kernels/eights.h"
#include "executor/backends/cuda/kernels/pairs_softmax.h"
#include "executor/backends/cuda/kernels/rows.h"

namespace weft::exec::cuda {
namespace {

// The thread's eights of a row. `ask(i, first)` loads an eight into place i of the kHeld that are kept. With kHeld = 0
// there is a single place, and every call of Each loads all eights again.
template <int kHeld, typename Thread, typename AskFor>
struct Eights {
  const RowShare<Thread>& share;
  int64_t columns;
  AskFor ask;

  WEFT_DEVICE Eights(const RowShare<Thread>& of, int64_t n, AskFor how) : share(of), columns(n), ask(how) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) ask(i, share.First(i));
  }
  // Calls f(i, first) for each eight.
  template <typename F>
  WEFT_DEVICE void Each(F f) {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) f(i, share.First(i));
    } else {
      for (int64_t first = share.First(0); first < columns; first += int64_t{share.team} * kBlock) {
        ask(0, first);
        f(0, first);
      }
    }
  }
};

template <typename C, Type S, int kHeld>
struct Softmax {
  static constexpr int kMaxThreads = 512;
  static constexpr int kKept = kHeld == 0 ? 1 : kHeld;
  PairsSoftmax args;
  int64_t rows;
  bool per_warp;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const RowShare<Thread> share(thread, per_warp);
    if (per_warp && share.row >= rows) return;
    const int64_t columns = args.shape.sequence, begin = share.row * columns;
    const bool aligned = columns % kBlock == 0;
    // The query sees keys [from, end).
    const int64_t query = Modulo(Divide(share.row, args.shape.heads), columns);
    const int64_t end = args.causal ? query + 1 : columns;
    const int64_t from = args.causal && args.window > 0 ? Largest(int64_t{0}, end - args.window) : 0;
    // Eights without a key that the query sees are not read.
    Eight<C, S> scores[kKept];
    const auto ask = [&](int i, int64_t first) {
      const bool any = first < end && first + kBlock > from;
      scores[i].Ask(args.s, begin + first, any ? columns - first : 0, aligned);
    };
    const auto sees = [&](int64_t key) { return key >= from && key < end; };
    Eights<kHeld, Thread, decltype(ask)> row(share, columns, ask);
    C most = C(-INFINITY);
    row.Each([&](int e, int64_t first) {
      C x[kBlock];
      scores[e].Pack();
      scores[e].Get(x);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) most = Largest(most, sees(first + i) ? x[i] : C(-INFINITY));
    });
    most = share.Most(most);
    C sum = 0, kept[kKept][kBlock];
    // Hidden keys stay 0 even if no visible key has a finite score.
    const auto exponentials = [&](int e, int64_t first) {
      scores[e].Pack();
      scores[e].Get(kept[e]);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) kept[e][i] = sees(first + i) ? Exp(kept[e][i] - most) : C(0);
    };
    row.Each([&](int e, int64_t first) {
      exponentials(e, first);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) sum += kept[e][i];
    });
    const C inverse = C(1) / share.Sum(sum);
    row.Each([&](int e, int64_t first) {
      if (first >= columns) return;
      if constexpr (kHeld == 0) exponentials(e, first);
      C p[kBlock];
#pragma unroll
      for (int i = 0; i < kBlock; ++i) p[i] = kept[e][i] * inverse;
#pragma unroll
      for (int i = 0; i < kBlock; ++i) p[i] = sees(first + i) ? p[i] : C(0);
      // Only this thread has read what it now writes, so s and p may be the same.
      StoreEight<C, S>(args.p, begin + first, columns - first, aligned, p);
    });
  }
};

template <typename C, Type S, int kHeld>
struct SoftmaxGradient {
  static constexpr int kMaxThreads = 512;
  static constexpr int kKept = kHeld == 0 ? 1 : kHeld;
  PairsSoftmaxGradient args;
  int64_t rows;
  bool per_warp;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const RowShare<Thread> share(thread, per_warp);
    if (per_warp && share.row >= rows) return;
    const int64_t columns = args.shape.sequence, begin = share.row * columns;
    const bool aligned = columns % kBlock == 0;
    Eight<C, S> dp[kKept], p[kKept];
    const auto ask = [&](int i, int64_t first) {
      dp[i].Ask(args.dp, begin + first, columns - first, aligned);
      p[i].Ask(args.p, begin + first, columns - first, aligned);
    };
    Eights<kHeld, Thread, decltype(ask)> row(share, columns, ask);
    const auto get = [&](int e, C(&of_dp)[kBlock], C(&of_p)[kBlock]) {
      dp[e].Pack();
      p[e].Pack();
      dp[e].Get(of_dp);
      p[e].Get(of_p);
    };
    C sum = 0;
    row.Each([&](int e, int64_t) {
      C x[kBlock], y[kBlock];
      get(e, x, y);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) sum += x[i] * y[i];
    });
    sum = share.Sum(sum);
    row.Each([&](int e, int64_t first) {
      if (first >= columns) return;
      C x[kBlock], y[kBlock];
      get(e, x, y);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) x[i] = y[i] * (x[i] - sum);
      StoreEight<C, S>(args.ds, begin + first, columns - first, aligned, x);
    });
  }
};

// Launches one warp or block per row, with as many registers as rows of this length need.
template <template <typename, Type, int> typename Kernel, typename Args>
Outcome LaunchRows(const Args& args, std::initializer_list<Array> arrays, void* stream) {
  const int64_t rows = args.shape.sequences * args.shape.sequence * args.shape.heads;
  const RowLayout layout = RowLayout::Of(rows, args.shape.sequence);
  const auto launch = [&](const auto& kernel) {
    return LaunchKernel(kernel, layout.blocks, layout.threads, kBlockSumBytes, stream);
  };
  return WithEights(args.in_double, args.shape.sequence % kBlock == 0, arrays, {}, [&]<typename C, Type S>() {
    if (layout.held == 2) return launch(Kernel<C, S, 2>{args, rows, layout.per_warp});
    // Four eights of doubles do not fit into registers.
    if constexpr (sizeof(C) == 4) {
      if (layout.held == 4) return launch(Kernel<C, S, 4>{args, rows, layout.per_warp});
    }
    return launch(Kernel<C, S, 0>{args, rows, layout.per_warp});
  });
}

}  // namespace

Outcome Launch(const PairsSoftmax& args, void* stream) { return LaunchRows<Softmax>(args, {args.s, args.p}, stream); }

Outcome Launch(const PairsSoftmaxGradient& args, void* stream) {
  return LaunchRows<SoftmaxGradient>(args, {args.dp, args.p, args.ds}, stream);
}

}  // namespace weft::exec::cuda
