#include "executor/backends/cuda/kernels/pieces.h"
#include "executor/backends/cuda/kernels/rows.h"
#include "executor/backends/cuda/kernels/split_norm.h"

namespace weft::exec::cuda {
namespace {

constexpr int kThreads = 256;

constexpr int kEach = 2;

// ForRow handles this many eights of a row together: it calls ask(i, first) for each of them, then use(i, first) for
// each, and repeats both until the thread's share of the row ends.
constexpr int kTogether = 2;
template <typename Share, typename AskFor, typename Use>
WEFT_DEVICE void ForRow(const Share& share, int64_t columns, AskFor ask, Use use) {
  const int64_t step = int64_t{share.team} * kBlock;
  for (int64_t first = share.First(0); first < columns; first += kTogether * step) {
#pragma unroll
    for (int i = 0; i < kTogether; ++i) ask(i, first + i * step);
#pragma unroll
    for (int i = 0; i < kTogether; ++i) use(i, first + i * step);
  }
}

template <typename C, Type S>
struct Partial {
  static constexpr int kMaxThreads = 512;
  NormPartial a;
  bool per_warp;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const RowShare<Thread> share(thread, per_warp);
    if (per_warp && share.row >= a.rows) return;
    const bool aligned = a.columns % kBlock == 0;
    Eight<C, S> eights[kTogether];
    const auto ask = [&](int i, int64_t first) {
      eights[i].Ask(a.x, share.row * a.columns + first, a.columns - first, aligned);
    };
    C mean = 0;
    if (!a.squares_only) {
      C sum = 0;
      ForRow(share, a.columns, ask, [&](int e, int64_t) {
        C x[kBlock];
        eights[e].Get(x);
#pragma unroll
        for (int i = 0; i < kBlock; ++i) sum += x[i];
      });
      mean = share.Sum(sum) / static_cast<C>(a.columns);
    }
    C squares = 0;
    ForRow(share, a.columns, ask, [&](int e, int64_t first) {
      C x[kBlock];
      eights[e].Get(x);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        squares += InRow<S>(i, a.columns - first) ? (x[i] - mean) * (x[i] - mean) : C(0);
      }
    });
    squares = share.Sum(squares);
    if (share.place != 0) return;
    if (a.squares_only) {
      Store<C>(a.partial, share.row, squares);
    } else {
      Store<C>(a.partial, 2 * share.row, mean);
      Store<C>(a.partial, 2 * share.row + 1, squares);
    }
  }
};

// Combines equal parts with means m_i and sums of squared differences s_i. The mean of the whole is the mean of the
// m_i, and its sum of squared differences is Σ s_i + (columns of a part) Σ (m_i - mean)² (Chan, Golub, LeVeque 1979).
// Without `mean`, each part gives only a sum of squares, and the sum of the whole is the sum of these.
template <typename C>
struct Combine {
  static constexpr int kMaxThreads = kThreads;
  NormCombine a;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t row = thread.block() * thread.count() + thread.index();
    if (row >= a.rows) return;
    const C whole = static_cast<C>(a.whole_columns);
    C squares = 0;
    if (a.mean.data == nullptr) {
      for (int64_t part = 0; part < a.parts; ++part) squares += Load<C>(a.partials, part * a.rows + row);
    } else {
      C mean = 0, between = 0;
      for (int64_t part = 0; part < a.parts; ++part) mean += Load<C>(a.partials, 2 * (part * a.rows + row));
      mean /= static_cast<C>(a.parts);
      for (int64_t part = 0; part < a.parts; ++part) {
        const C difference = Load<C>(a.partials, 2 * (part * a.rows + row)) - mean;
        squares += Load<C>(a.partials, 2 * (part * a.rows + row) + 1);
        between += difference * difference;
      }
      squares += between * (whole / static_cast<C>(a.parts));
      Store<C>(a.mean, row, mean);
    }
    Store<C>(a.rstd, row, C(1) / Sqrt(squares / whole + static_cast<C>(a.epsilon)));
  }
};

template <typename C, Type S>
struct Apply {
  static constexpr int kMaxThreads = kPieceThreads;
  NormApply a;
  Pieces pieces;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const bool aligned = pieces.Aligned(), centered = a.mean.data != nullptr;
    Piece piece[kEach];
    Eight<C, S> x[kEach], gamma[kEach], beta[kEach];
    C mean[kEach], rstd[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      piece[i] = pieces.At(thread, i, kEach);
      const auto [row, first, count] = piece[i];
      x[i].Ask(a.x, row * a.columns + first, count, aligned);
      gamma[i].Ask(a.gamma, first, count, aligned);
      if (centered) beta[i].Ask(a.beta, first, count, aligned);
      mean[i] = centered ? Statistic<C, S>(a.mean, row) : C(0);
      rstd[i] = Statistic<C, S>(a.rstd, row);
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      C y[kBlock], weight[kBlock];
      x[i].Get(y);
      gamma[i].Get(weight);
#pragma unroll
      for (int j = 0; j < kBlock; ++j) y[j] = (y[j] - mean[i]) * rstd[i] * weight[j];
      if (centered) {
        beta[i].Get(weight);
#pragma unroll
        for (int j = 0; j < kBlock; ++j) y[j] += weight[j];
      }
      StoreEight<C, S>(a.y, piece[i].row * a.columns + piece[i].first, piece[i].count, aligned, y);
    }
  }
};

template <typename C, Type S>
struct BackwardPartial {
  static constexpr int kMaxThreads = 512;
  NormBackwardPartial a;
  bool per_warp;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const RowShare<Thread> share(thread, per_warp);
    if (per_warp && share.row >= a.rows) return;
    const bool centered = a.mean.data != nullptr, aligned = a.columns % kBlock == 0;
    const C mean = centered ? Statistic<C, S>(a.mean, share.row) : C(0);
    const C rstd = Statistic<C, S>(a.rstd, share.row);
    Eight<C, S> dy[kTogether], x[kTogether], gamma[kTogether];
    C plain = 0, products = 0;
    ForRow(
        share, a.columns,
        [&](int i, int64_t first) {
          const int64_t count = a.columns - first;
          dy[i].Ask(a.dy, share.row * a.columns + first, count, aligned);
          x[i].Ask(a.x, share.row * a.columns + first, count, aligned);
          gamma[i].Ask(a.gamma, first, count, aligned);
        },
        [&](int e, int64_t) {
          C of_dy[kBlock], of_x[kBlock], weight[kBlock];
          dy[e].Get(of_dy);
          x[e].Get(of_x);
          gamma[e].Get(weight);
#pragma unroll
          for (int i = 0; i < kBlock; ++i) {
            const C g = of_dy[i] * weight[i];
            plain += g;
            products += g * ((of_x[i] - mean) * rstd);
          }
        });
    products = share.Sum(products);
    if (centered) plain = share.Sum(plain);
    if (share.place != 0) return;
    if (centered) {
      Store<C>(a.sums, 2 * share.row, plain);
      Store<C>(a.sums, 2 * share.row + 1, products);
    } else {
      Store<C>(a.sums, share.row, products);
    }
  }
};

// dx = rstd (dy gamma - Σ(dy gamma) / n - x̂ Σ(dy gamma x̂) / n). If `mean` is null, the first sum is left out.
template <typename C, Type S>
struct BackwardApply {
  static constexpr int kMaxThreads = kPieceThreads;
  NormBackwardApply a;
  Pieces pieces;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const auto [row, first, count] = pieces.At(thread, 0, 1);
    const int64_t place = row * a.columns + first;
    const bool aligned = pieces.Aligned(), centered = a.mean.data != nullptr;
    Eight<C, S> dy, x, gamma, old;
    dy.Ask(a.dy, place, count, aligned);
    x.Ask(a.x, place, count, aligned);
    gamma.Ask(a.gamma, first, count, aligned);
    if (a.accumulate) old.Ask(a.dx, place, count, aligned);
    const C whole = static_cast<C>(a.whole_columns);
    const C mean = centered ? Statistic<C, S>(a.mean, row) : C(0), rstd = Statistic<C, S>(a.rstd, row);
    const C plain = centered ? Statistic<C, S>(a.sums, 2 * row) / whole : C(0);
    const C products = Statistic<C, S>(a.sums, centered ? 2 * row + 1 : row) / whole;
    C dx[kBlock], of_x[kBlock], weight[kBlock];
    dy.Get(dx);
    x.Get(of_x);
    gamma.Get(weight);
#pragma unroll
    for (int i = 0; i < kBlock; ++i) dx[i] = rstd * (dx[i] * weight[i] - plain - (of_x[i] - mean) * rstd * products);
    if (a.accumulate) {
      old.Get(weight);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) dx[i] = weight[i] + dx[i];
    }
    StoreEight<C, S>(a.dx, place, count, aligned, dx);
  }
};

}  // namespace

Outcome Launch(const NormPartial& norm, void* stream) {
  const RowLayout layout = RowLayout::Of(norm.rows, norm.columns);
  return WithEights(norm.in_double, norm.columns % kBlock == 0, {norm.x}, {}, [&]<typename C, Type S>() {
    return LaunchKernel(Partial<C, S>{norm, layout.per_warp}, layout.blocks, layout.threads, kBlockSumBytes, stream);
  });
}

Outcome Launch(const NormCombine& norm, void* stream) {
  const int64_t blocks = CeilDivide(norm.rows, kThreads);
  return norm.in_double ? LaunchKernel(Combine<double>{norm}, blocks, kThreads, 0, stream)
                        : LaunchKernel(Combine<float>{norm}, blocks, kThreads, 0, stream);
}

Outcome Launch(const NormApply& norm, void* stream) {
  const Pieces pieces = Pieces::Of(norm.rows, norm.columns);
  return WithEights(norm.in_double, norm.columns % kBlock == 0, {norm.x, norm.gamma, norm.beta, norm.y},
                    {norm.mean, norm.rstd}, [&]<typename C, Type S>() {
                      return LaunchKernel(Apply<C, S>{norm, pieces}, pieces.Blocks(kEach), kPieceThreads, 0, stream);
                    });
}

Outcome Launch(const NormBackwardPartial& norm, void* stream) {
  const RowLayout layout = RowLayout::Of(norm.rows, norm.columns);
  return WithEights(norm.in_double, norm.columns % kBlock == 0, {norm.dy, norm.x, norm.gamma}, {norm.mean, norm.rstd},
                    [&]<typename C, Type S>() {
                      return LaunchKernel(BackwardPartial<C, S>{norm, layout.per_warp}, layout.blocks, layout.threads,
                                          kBlockSumBytes, stream);
                    });
}

Outcome Launch(const NormBackwardApply& norm, void* stream) {
  const Pieces pieces = Pieces::Of(norm.rows, norm.columns);
  return WithEights(norm.in_double, norm.columns % kBlock == 0, {norm.dy, norm.x, norm.gamma, norm.dx},
                    {norm.mean, norm.rstd, norm.sums}, [&]<typename C, Type S>() {
                      return LaunchKernel(BackwardApply<C, S>{norm, pieces}, pieces.Blocks(1), kPieceThreads, 0,
                                          stream);
                    });
}

}  // namespace weft::exec::cuda
