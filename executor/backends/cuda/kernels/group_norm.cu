// A block per sample and group. Neighbouring threads take neighbouring channels of a group's rows.
#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/block_fold.h"
#include "executor/backends/cuda/kernels/group_norm.h"

namespace weft::cuda {
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

// The group of a block.
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

// Calls f(element, channel) for the thread's share of its group.
template <typename Thread, typename F>
WEFT_DEVICE void ForElements(const Thread& thread, const GroupNormShape& norm, const Group& group, F f) {
  for (int64_t e = thread.index(); e < norm.rows * group.width; e += thread.count()) {
    const int64_t row = Divide(e, group.width), column = e - row * group.width;
    f(group.first + row * norm.columns + column, group.channel + column);
  }
}

template <typename C>
struct Forward {
  static constexpr int kMaxThreads = kThreads;
  GroupNormForward args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const GroupNormShape& norm = args.shape;
    const Group group(norm, thread);
    const C count = static_cast<C>(norm.rows * group.width);
    C sum = 0;
    ForElements(thread, norm, group, [&](int64_t e, int64_t) { sum += Load<C>(args.x, e); });
    const C average = BlockFold(thread, 0, sum, Plus()) / count;
    C squares = 0;
    ForElements(thread, norm, group, [&](int64_t e, int64_t) {
      const C difference = Load<C>(args.x, e) - average;
      squares += difference * difference;
    });
    squares = BlockFold(thread, 0, squares, Plus());
    const C inverse = C(1) / Sqrt(squares / count + static_cast<C>(args.epsilon));
    ForElements(thread, norm, group, [&](int64_t e, int64_t channel) {
      Store<C>(args.y, e,
               (Load<C>(args.x, e) - average) * inverse * Load<C>(args.gamma, channel) + Load<C>(args.beta, channel));
    });
    if (thread.index() != 0) return;
    Store<C>(args.mean, thread.block(), average);
    Store<C>(args.rstd, thread.block(), inverse);
  }
};

// With z = (x - mean) rstd and h = gamma dy: dx = rstd (h - avg(h) - z avg(h z)), averages over the group.
template <typename C>
struct Backward {
  static constexpr int kMaxThreads = kThreads;
  GroupNormInput args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const GroupNormShape& norm = args.shape;
    const Group group(norm, thread);
    const C count = static_cast<C>(norm.rows * group.width);
    const C average = Load<C>(args.mean, thread.block()), inverse = Load<C>(args.rstd, thread.block());
    Pair<C> sums = {C(0), C(0)};
    ForElements(thread, norm, group, [&](int64_t e, int64_t channel) {
      const C scaled = Load<C>(args.gamma, channel) * Load<C>(args.dy, e);
      sums.first += scaled;
      sums.second += scaled * ((Load<C>(args.x, e) - average) * inverse);
    });
    sums = BlockFold(thread, 0, sums, Plus());
    const C plain = sums.first / count, product = sums.second / count;
    ForElements(thread, norm, group, [&](int64_t e, int64_t channel) {
      const C scaled = Load<C>(args.gamma, channel) * Load<C>(args.dy, e), z = (Load<C>(args.x, e) - average) * inverse;
      const C result = inverse * (scaled - plain - z * product);
      Store<C>(args.dx, e, norm.accumulate ? Load<C>(args.dx, e) + result : result);
    });
  }
};

// A block takes 32 columns; its warps take rows in turns, and their sums are added in order.
template <typename C>
struct BackwardWeight {
  static constexpr int kMaxThreads = kThreads;
  GroupNormWeight args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const GroupNormShape& norm = args.shape;
    const auto shared = thread.template Shared<Pair<C>>(0, thread.count());
    const int64_t column = thread.block() * kWarp + thread.lane();
    Pair<C> sums = {C(0), C(0)};
    if (column < norm.columns) {
      const int64_t group = Divide(column, Divide(norm.columns, norm.groups));
      for (int64_t sample = 0; sample < norm.samples; ++sample) {
        const int64_t index = sample * norm.groups + group;
        const C average = Load<C>(args.mean, index), inverse = Load<C>(args.rstd, index);
        for (int64_t row = thread.warp(); row < norm.rows; row += thread.warps()) {
          const int64_t e = (sample * norm.rows + row) * norm.columns + column;
          const C gradient = Load<C>(args.dy, e);
          sums.first += gradient * ((Load<C>(args.x, e) - average) * inverse);
          sums.second += gradient;
        }
      }
    }
    shared[thread.index()] = sums;
    thread.Sync();
    if (thread.warp() != 0 || column >= norm.columns) return;
    for (int warp = 1; warp < thread.warps(); ++warp) sums = Plus()(sums, shared[warp * kWarp + thread.lane()]);
    Add(args.dgamma, column, sums.first);
    Add(args.dbeta, column, sums.second);
  }

  WEFT_DEVICE void Add(const Array& array, int64_t column, C value) const {
    Store<C>(array, column, args.shape.accumulate ? Load<C>(array, column) + value : value);
  }
};

// Of sums of both kernels.
template <typename C>
constexpr int64_t kPairBytes = kThreads * int64_t{sizeof(Pair<C>)};

}  // namespace

Outcome Launch(const GroupNormForward& args, void* stream) {
  const int64_t blocks = args.shape.samples * args.shape.groups;
  if (args.shape.in_double) {
    return LaunchKernel(Forward<double>{args}, blocks, kThreads, kPairBytes<double>, stream);
  }
  return LaunchKernel(Forward<float>{args}, blocks, kThreads, kPairBytes<float>, stream);
}

Outcome Launch(const GroupNormInput& args, void* stream) {
  const int64_t blocks = args.shape.samples * args.shape.groups;
  if (args.shape.in_double) {
    return LaunchKernel(Backward<double>{args}, blocks, kThreads, kPairBytes<double>, stream);
  }
  return LaunchKernel(Backward<float>{args}, blocks, kThreads, kPairBytes<float>, stream);
}

Outcome Launch(const GroupNormWeight& args, void* stream) {
  const int64_t blocks = CeilDivide(args.shape.columns, kWarp);
  if (args.shape.in_double) {
    return LaunchKernel(BackwardWeight<double>{args}, blocks, kThreads, kPairBytes<double>, stream);
  }
  return LaunchKernel(BackwardWeight<float>{args}, blocks, kThreads, kPairBytes<float>, stream);
}

}  // namespace weft::cuda
