#include "executor/backends/cuda/kernels/rows.h"
#include "executor/backends/cuda/kernels/split_norm.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

// Calls f(x, first) for the thread's eights of its row.
template <typename C, Type S, typename Share, typename F>
WEFT_DEVICE void ForRow(const Share& share, const Array& x, int64_t columns, F f) {
  const bool aligned = columns % kBlock == 0;
  for (int64_t first = share.First(0); first < columns; first += share.team * kBlock) {
    C block[kBlock];
    LoadSome<C, S>(x, share.row * columns + first, columns - first, aligned, block);
    f(block, first);
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
    C mean = 0;
    if (!a.squares_only) {
      C sum = 0;
      ForRow<C, S>(share, a.x, a.columns, [&](const C(&x)[kBlock], int64_t) {
#pragma unroll
        for (int i = 0; i < kBlock; ++i) sum += x[i];
      });
      mean = share.Sum(sum) / static_cast<C>(a.columns);
    }
    C squares = 0;
    ForRow<C, S>(share, a.x, a.columns, [&](const C(&x)[kBlock], int64_t first) {
#pragma unroll
      for (int i = 0; i < kBlock; ++i) squares += first + i < a.columns ? (x[i] - mean) * (x[i] - mean) : C(0);
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

// Of equal parts with means m_i and sums of squared differences s_i: the mean is that of the m_i, and the sum is
// Σ s_i + (columns of a part) Σ (m_i - mean)² (Chan, Golub, LeVeque 1979).
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
  static constexpr int kMaxThreads = kThreads;
  NormApply a;
  int64_t per_row;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t item = thread.block() * thread.count() + thread.index();
    if (item >= a.rows * per_row) return;
    const int64_t row = Divide(item, per_row), first = (item - row * per_row) * kBlock;
    const int64_t count = a.columns - first;
    const bool aligned = a.columns % kBlock == 0;
    const C mean = a.mean.data == nullptr ? C(0) : Load<C>(a.mean, row);
    const C rstd = Load<C>(a.rstd, row);
    C x[kBlock], gamma[kBlock];
    LoadSome<C, S>(a.x, row * a.columns + first, count, aligned, x);
    LoadSome<C, S>(a.gamma, first, count, aligned, gamma);
#pragma unroll
    for (int i = 0; i < kBlock; ++i) x[i] = (x[i] - mean) * rstd * gamma[i];
    if (a.beta.data != nullptr) {
      C beta[kBlock];
      LoadSome<C, S>(a.beta, first, count, aligned, beta);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) x[i] += beta[i];
    }
    StoreSome<C, S>(a.y, row * a.columns + first, count, aligned, x);
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
    const bool centred = a.mean.data != nullptr;
    const bool aligned = a.columns % kBlock == 0;
    const C mean = centred ? Load<C>(a.mean, share.row) : C(0);
    const C rstd = Load<C>(a.rstd, share.row);
    C plain = 0, products = 0;
    ForRow<C, S>(share, a.dy, a.columns, [&](const C(&dy)[kBlock], int64_t first) {
      C x[kBlock], gamma[kBlock];
      LoadSome<C, S>(a.x, share.row * a.columns + first, a.columns - first, aligned, x);
      LoadSome<C, S>(a.gamma, first, a.columns - first, aligned, gamma);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        const C g = dy[i] * gamma[i];
        plain += g;
        products += g * ((x[i] - mean) * rstd);
      }
    });
    products = share.Sum(products);
    if (centred) plain = share.Sum(plain);
    if (share.place != 0) return;
    if (centred) {
      Store<C>(a.sums, 2 * share.row, plain);
      Store<C>(a.sums, 2 * share.row + 1, products);
    } else {
      Store<C>(a.sums, share.row, products);
    }
  }
};

// dx = rstd (dy gamma - Σ(dy gamma) / n - x̂ Σ(dy gamma x̂) / n); without `mean` without the first sum.
template <typename C, Type S>
struct BackwardApply {
  static constexpr int kMaxThreads = kThreads;
  NormBackwardApply a;
  int64_t per_row;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t item = thread.block() * thread.count() + thread.index();
    if (item >= a.rows * per_row) return;
    const int64_t row = Divide(item, per_row), first = (item - row * per_row) * kBlock;
    const int64_t count = a.columns - first;
    const bool aligned = a.columns % kBlock == 0, centred = a.mean.data != nullptr;
    const C whole = static_cast<C>(a.whole_columns);
    const C mean = centred ? Load<C>(a.mean, row) : C(0), rstd = Load<C>(a.rstd, row);
    const C plain = centred ? Load<C>(a.sums, 2 * row) / whole : C(0);
    const C products = Load<C>(a.sums, centred ? 2 * row + 1 : row) / whole;
    C dy[kBlock], x[kBlock], gamma[kBlock];
    LoadSome<C, S>(a.dy, row * a.columns + first, count, aligned, dy);
    LoadSome<C, S>(a.x, row * a.columns + first, count, aligned, x);
    LoadSome<C, S>(a.gamma, first, count, aligned, gamma);
#pragma unroll
    for (int i = 0; i < kBlock; ++i) dy[i] = rstd * (dy[i] * gamma[i] - plain - (x[i] - mean) * rstd * products);
    WriteSome<C, S>(a.dx, row * a.columns + first, count, aligned, a.accumulate, dy);
  }
};

}  // namespace

Outcome Launch(const NormPartial& norm, void* stream) {
  const RowLayout layout = RowLayout::Of(norm.rows, norm.columns);
  return WithTypes(norm.in_double, {norm.x}, [&]<typename C, Type S>() {
    return LaunchKernel(Partial<C, S>{norm, layout.per_warp}, layout.blocks, layout.threads, kBlockSumBytes, stream);
  });
}

Outcome Launch(const NormCombine& norm, void* stream) {
  const int64_t blocks = CeilDivide(norm.rows, kThreads);
  return norm.in_double ? LaunchKernel(Combine<double>{norm}, blocks, kThreads, 0, stream)
                        : LaunchKernel(Combine<float>{norm}, blocks, kThreads, 0, stream);
}

Outcome Launch(const NormApply& norm, void* stream) {
  const int64_t per_row = CeilDivide(norm.columns, kBlock);
  return WithTypes(norm.in_double, {norm.x, norm.gamma, norm.beta, norm.y}, [&]<typename C, Type S>() {
    return LaunchKernel(Apply<C, S>{norm, per_row}, CeilDivide(norm.rows * per_row, kThreads), kThreads, 0, stream);
  });
}

Outcome Launch(const NormBackwardPartial& norm, void* stream) {
  const RowLayout layout = RowLayout::Of(norm.rows, norm.columns);
  return WithTypes(norm.in_double, {norm.dy, norm.x, norm.gamma}, [&]<typename C, Type S>() {
    return LaunchKernel(BackwardPartial<C, S>{norm, layout.per_warp}, layout.blocks, layout.threads, kBlockSumBytes,
                        stream);
  });
}

Outcome Launch(const NormBackwardApply& norm, void* stream) {
  const int64_t per_row = CeilDivide(norm.columns, kBlock);
  return WithTypes(norm.in_double, {norm.dy, norm.x, norm.gamma, norm.dx}, [&]<typename C, Type S>() {
    return LaunchKernel(BackwardApply<C, S>{norm, per_row}, CeilDivide(norm.rows * per_row, kThreads), kThreads, 0,
                        stream);
  });
}

}  // namespace weft::cuda
