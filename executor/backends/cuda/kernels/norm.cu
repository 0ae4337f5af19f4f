// One pass over memory: a row stays in registers between its sums and its results.
#include "executor/backends/cuda/kernels/norm.h"
#include "executor/backends/cuda/kernels/rows.h"

namespace weft::cuda {
namespace {

// kHeld: eights of a row that a thread keeps; 0: it reads them again for every pass.
template <typename C, Type S, int kHeld>
struct Forward {
  static constexpr int kMaxThreads = 512;
  Norm a;
  bool per_warp;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const RowShare<Thread> share(thread, per_warp);
    if (per_warp && share.row >= a.rows) return;
    const int64_t begin = share.row * a.columns;
    const bool aligned = a.columns % kBlock == 0;
    const bool centred = a.mean.data != nullptr;
    constexpr int kKept = kHeld == 0 ? 1 : kHeld;
    C kept[kKept][kBlock];
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        LoadSome<C, S>(a.x, begin + share.First(i), a.columns - share.First(i), aligned, kept[i]);
      }
    }
    const auto each = [&](auto f) {
      if constexpr (kHeld > 0) {
#pragma unroll
        for (int i = 0; i < kHeld; ++i) f(kept[i], share.First(i));
      } else {
        for (int64_t first = share.First(0); first < a.columns; first += share.team * kBlock) {
          LoadSome<C, S>(a.x, begin + first, a.columns - first, aligned, kept[0]);
          f(kept[0], first);
        }
      }
    };
    C mean = 0;
    if (centred) {
      C sum = 0;
      each([&](const C(&x)[kBlock], int64_t) {
#pragma unroll
        for (int i = 0; i < kBlock; ++i) sum += x[i];
      });
      mean = share.Sum(sum) / static_cast<C>(a.columns);
    }
    C squares = 0;
    each([&](const C(&x)[kBlock], int64_t first) {
#pragma unroll
      for (int i = 0; i < kBlock; ++i) squares += first + i < a.columns ? (x[i] - mean) * (x[i] - mean) : C(0);
    });
    const C rstd = C(1) / Sqrt(share.Sum(squares) / static_cast<C>(a.columns) + static_cast<C>(a.epsilon));
    each([&](const C(&x)[kBlock], int64_t first) {
      if (first >= a.columns) return;
      const int64_t count = a.columns - first;
      C gamma[kBlock], y[kBlock];
      LoadSome<C, S>(a.gamma, first, count, aligned, gamma);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) y[i] = (x[i] - mean) * rstd * gamma[i];
      if (centred) {
        C beta[kBlock];
        LoadSome<C, S>(a.beta, first, count, aligned, beta);
#pragma unroll
        for (int i = 0; i < kBlock; ++i) y[i] += beta[i];
      }
      StoreSome<C, S>(a.y, begin + first, count, aligned, y);
    });
    if (share.place == 0) {
      if (centred) Store<C>(a.mean, share.row, mean);
      Store<C>(a.rstd, share.row, rstd);
    }
  }
};

// With g = dy gamma and z = (x - mean) rstd: dx = rstd (g - mean(g) - z mean(g z)), without mean(g) for the root mean
// square norm.
template <typename C, Type S, int kHeld>
struct Backward {
  static constexpr int kMaxThreads = 512;
  NormBackward a;
  bool per_warp;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const RowShare<Thread> share(thread, per_warp);
    if (per_warp && share.row >= a.rows) return;
    const int64_t begin = share.row * a.columns;
    const bool aligned = a.columns % kBlock == 0;
    const bool centred = a.mean.data != nullptr;
    const C mean = centred ? Load<C>(a.mean, share.row) : C(0);
    const C rstd = Load<C>(a.rstd, share.row);
    constexpr int kKept = kHeld == 0 ? 1 : kHeld;
    C g[kKept][kBlock], z[kKept][kBlock];
    const auto load = [&](int64_t first, C(&to_g)[kBlock], C(&to_z)[kBlock]) {
      C gamma[kBlock];
      const int64_t count = a.columns - first;
      LoadSome<C, S>(a.dy, begin + first, count, aligned, to_g);
      LoadSome<C, S>(a.x, begin + first, count, aligned, to_z);
      LoadSome<C, S>(a.gamma, first, count, aligned, gamma);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        to_g[i] *= gamma[i];
        to_z[i] = (to_z[i] - mean) * rstd;
      }
    };
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) load(share.First(i), g[i], z[i]);
    }
    const auto each = [&](auto f) {
      if constexpr (kHeld > 0) {
#pragma unroll
        for (int i = 0; i < kHeld; ++i) f(g[i], z[i], share.First(i));
      } else {
        for (int64_t first = share.First(0); first < a.columns; first += share.team * kBlock) {
          load(first, g[0], z[0]);
          f(g[0], z[0], first);
        }
      }
    };
    // Elements behind the end are 0 in g.
    C sum_g = 0, sum_gz = 0;
    each([&](const C(&of_g)[kBlock], const C(&of_z)[kBlock], int64_t) {
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        sum_g += of_g[i];
        sum_gz += of_g[i] * of_z[i];
      }
    });
    const C columns = static_cast<C>(a.columns);
    const C mean_g = centred ? share.Sum(sum_g) / columns : C(0);
    const C mean_gz = share.Sum(sum_gz) / columns;
    each([&](const C(&of_g)[kBlock], const C(&of_z)[kBlock], int64_t first) {
      if (first >= a.columns) return;
      C dx[kBlock];
#pragma unroll
      for (int i = 0; i < kBlock; ++i) dx[i] = rstd * ((of_g[i] - mean_g) - of_z[i] * mean_gz);
      WriteSome<C, S>(a.dx, begin + first, a.columns - first, aligned, a.accumulate, dx);
    });
  }
};

template <template <typename, Type, int> typename Kernel, typename Args>
Outcome LaunchRows(const Args& args, std::initializer_list<Array> arrays, void* stream) {
  if (args.rows == 0 || args.columns == 0) return nullptr;
  const RowLayout layout = RowLayout::Of(args.rows, args.columns);
  return WithTypes(args.in_double, arrays, [&]<typename C, Type S>() {
    const auto launch = [&](const auto& kernel) {
      return LaunchKernel(kernel, layout.blocks, layout.threads, layout.per_warp ? 0 : kBlockSumBytes, stream);
    };
    switch (layout.held) {
      case 2:
        return launch(Kernel<C, S, 2>{args, layout.per_warp});
      case 4:
        return launch(Kernel<C, S, 4>{args, layout.per_warp});
      default:
        return launch(Kernel<C, S, 0>{args, layout.per_warp});
    }
  });
}

}  // namespace

Outcome Launch(const Norm& norm, void* stream) {
  return LaunchRows<Forward>(norm, {norm.x, norm.gamma, norm.beta, norm.y}, stream);
}

Outcome Launch(const NormBackward& norm, void* stream) {
  return LaunchRows<Backward>(norm, {norm.dy, norm.x, norm.gamma, norm.dx}, stream);
}

}  // namespace weft::cuda
