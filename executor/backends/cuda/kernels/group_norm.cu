// One block per sample and group. A thread takes up to eight neighboring channels of a row at a time. If the group is
// not too large, threads keep its elements in registers after the sums, to compute the results from them.
#include "executor/backends/cuda/kernels/block_fold.h"
#include "executor/backends/cuda/kernels/eights.h"
#include "executor/backends/cuda/kernels/group_norm.h"

namespace weft::exec::cuda {
namespace {

constexpr int kThreads = 512;

template <typename C>
struct Pair {
  C first, second;
};

struct Plus {
  template <typename C>
  WEFT_DEVICE C operator()(C a, C b) const {
    return a + b;
  }
  template <typename C>
  WEFT_DEVICE Pair<C> operator()(Pair<C> a, Pair<C> b) const {
    return {a.first + b.first, a.second + b.second};
  }
};

// The group that a block works on.
struct Group {
  int64_t width, first, channel;

  template <typename Thread>
  WEFT_DEVICE Group(const GroupNormShape& norm, const Thread& thread) {
    const int64_t sample = Divide(thread.block(), norm.groups);
    width = Divide(norm.columns, norm.groups);
    channel = (thread.block() - sample * norm.groups) * width;
    first = sample * norm.rows * norm.columns + channel;
  }
};

// Calls f(i, element, channel, channels) for each eight in the thread's share of its group. `element` and `channel` are
// the first of the eight, and `channels` is the number of the group's channels from there on. With kHeld > 0 there are
// kHeld calls; eights after the end have channels <= 0. With kHeld = 0 there is one call for each eight, always with i
// = 0.
template <int kHeld, typename Thread, typename F>
WEFT_DEVICE void ForEights(const Thread& thread, const GroupNormShape& norm, const Group& group, F f) {
  const int64_t of_row = Divide(group.width + kBlock - 1, kBlock), all = norm.rows * of_row;
  const auto call = [&](int i, int64_t b) {
    const int64_t row = Divide(b, of_row), column = (b - row * of_row) * kBlock;
    f(i, group.first + row * norm.columns + column, group.channel + column, b < all ? group.width - column : 0);
  };
  if constexpr (kHeld > 0) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) call(i, thread.index() + int64_t{i} * thread.count());
  } else {
    for (int64_t b = thread.index(); b < all; b += thread.count()) call(0, b);
  }
}

// kHeld: eights of the group that a thread keeps; 0 = it reads them again in every pass.
template <typename C, Type S, int kHeld>
struct Forward {
  static constexpr int kMaxThreads = kThreads;
  static constexpr int kKept = kHeld == 0 ? 1 : kHeld;
  GroupNormForward args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const GroupNormShape& norm = args.shape;
    const Group group(norm, thread);
    const bool aligned = group.width % kBlock == 0;
    const C count = static_cast<C>(norm.rows * group.width);
    Eight<C, S> kept[kKept];
    const auto ask = [&](int i, int64_t e, int64_t, int64_t channels) { kept[i].Ask(args.x, e, channels, aligned); };
    if constexpr (kHeld > 0) ForEights<kHeld>(thread, norm, group, ask);
    // Calls f(x, element, channel, channels) for each eight x.
    const auto each = [&](auto f) {
      ForEights<kHeld>(thread, norm, group, [&](int i, int64_t e, int64_t channel, int64_t channels) {
        if constexpr (kHeld == 0) ask(i, e, channel, channels);
        C x[kBlock];
        kept[i].Pack();
        kept[i].Get(x);
        f(x, e, channel, channels);
      });
    };
    C sum = 0;
    each([&](const C(&x)[kBlock], int64_t, int64_t, int64_t) {
#pragma unroll
      for (int i = 0; i < kBlock; ++i) sum += x[i];
    });
    const C average = BlockFold(thread, 0, sum, Plus()) / count;
    C squares = 0;
    each([&](const C(&x)[kBlock], int64_t, int64_t, int64_t channels) {
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        squares += InRow<S>(i, channels) ? (x[i] - average) * (x[i] - average) : C(0);
      }
    });
    squares = BlockFold(thread, 0, squares, Plus());
    const C inverse = C(1) / Sqrt(squares / count + static_cast<C>(args.epsilon));
    each([&](C(&x)[kBlock], int64_t e, int64_t channel, int64_t channels) {
      Eight<C, S> gamma, beta;
      gamma.Ask(args.gamma, channel, channels, aligned);
      beta.Ask(args.beta, channel, channels, aligned);
      C scale[kBlock], shift[kBlock];
      gamma.Get(scale);
      beta.Get(shift);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) x[i] = (x[i] - average) * inverse * scale[i] + shift[i];
      StoreEight<C, S>(args.y, e, channels, aligned, x);
    });
    if (thread.index() != 0) return;
    Store<C>(args.mean, thread.block(), average);
    Store<C>(args.rstd, thread.block(), inverse);
  }
};

// With z = (x - mean) rstd and h = gamma dy: dx = rstd (h - avg(h) - z avg(h z)), where avg is over the group.
template <typename C, Type S, int kHeld>
struct Backward {
  static constexpr int kMaxThreads = kThreads;
  static constexpr int kKept = kHeld == 0 ? 1 : kHeld;
  GroupNormInput args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const GroupNormShape& norm = args.shape;
    const Group group(norm, thread);
    const bool aligned = group.width % kBlock == 0;
    const C count = static_cast<C>(norm.rows * group.width);
    Eight<C, S> dy[kKept], x[kKept];
    const auto ask = [&](int i, int64_t e, int64_t, int64_t channels) {
      dy[i].Ask(args.dy, e, channels, aligned);
      x[i].Ask(args.x, e, channels, aligned);
    };
    if constexpr (kHeld > 0) ForEights<kHeld>(thread, norm, group, ask);
    const C average = Statistic<C, S>(args.mean, thread.block()), inverse = Statistic<C, S>(args.rstd, thread.block());
    // Calls f(h, z, element, channels) for each eight. h is 0 beyond the channels.
    const auto each = [&](auto f) {
      ForEights<kHeld>(thread, norm, group, [&](int i, int64_t e, int64_t channel, int64_t channels) {
        if constexpr (kHeld == 0) ask(i, e, channel, channels);
        Eight<C, S> gamma;
        gamma.Ask(args.gamma, channel, channels, aligned);
        C h[kBlock], z[kBlock], weight[kBlock];
        dy[i].Pack();
        x[i].Pack();
        dy[i].Get(h);
        x[i].Get(z);
        gamma.Get(weight);
#pragma unroll
        for (int j = 0; j < kBlock; ++j) {
          h[j] *= weight[j];
          z[j] = (z[j] - average) * inverse;
        }
        f(h, z, e, channels);
      });
    };
    Pair<C> sums = {C(0), C(0)};
    each([&](const C(&h)[kBlock], const C(&z)[kBlock], int64_t, int64_t) {
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        sums.first += h[i];
        sums.second += h[i] * z[i];
      }
    });
    sums = BlockFold(thread, 0, sums, Plus());
    const C plain = sums.first / count, product = sums.second / count;
    each([&](C(&h)[kBlock], const C(&z)[kBlock], int64_t e, int64_t channels) {
#pragma unroll
      for (int i = 0; i < kBlock; ++i) h[i] = inverse * (h[i] - plain - z[i] * product);
      if constexpr (S == Type::kNone) {
        WriteSome(args.dx, e, channels, aligned, norm.accumulate, h);
      } else {
        if (norm.accumulate) {
          Eight<C, S> old;
          C before[kBlock];
          old.Ask(args.dx, e, channels, aligned);
          old.Get(before);
#pragma unroll
          for (int i = 0; i < kBlock; ++i) h[i] = before[i] + h[i];
        }
        StoreEight<C, S>(args.dx, e, channels, aligned, h);
      }
    });
  }
};

// Shared memory for the sums of both kernels.
template <typename C>
constexpr int64_t kPairBytes = kThreads * int64_t{sizeof(Pair<C>)};

template <template <typename, Type, int> typename Kernel, typename Args>
Outcome LaunchGroups(const Args& args, std::initializer_list<Array> arrays, std::initializer_list<Array> statistics,
                     void* stream) {
  const GroupNormShape& norm = args.shape;
  const int64_t width = norm.columns / norm.groups, eights = norm.rows * CeilDivide(width, kBlock);
  return WithEights(norm.in_double, width % kBlock == 0, arrays, statistics, [&]<typename C, Type S>() {
    // The number of threads is the largest power of two below the number of eights, but at least kWarp and at most
    // kThreads.
    int threads = kWarp;
    while (threads < kThreads && 2 * threads < eights) threads *= 2;
    const auto launch = [&](const auto& kernel) {
      return LaunchKernel(kernel, norm.samples * norm.groups, threads, kPairBytes<C>, stream);
    };
    if constexpr (S != Type::kNone) {
      if (eights <= kThreads * 2) return launch(Kernel<C, S, 2>{args});
      if (eights <= kThreads * 4) return launch(Kernel<C, S, 4>{args});
    }
    return launch(Kernel<C, S, 0>{args});
  });
}

}  // namespace

Outcome Launch(const GroupNormForward& args, void* stream) {
  return LaunchGroups<Forward>(args, {args.x, args.gamma, args.beta, args.y}, {}, stream);
}

Outcome Launch(const GroupNormInput& args, void* stream) {
  return LaunchGroups<Backward>(args, {args.dy, args.x, args.gamma, args.dx}, {args.mean, args.rstd}, stream);
}

}  // namespace weft::exec::cuda
