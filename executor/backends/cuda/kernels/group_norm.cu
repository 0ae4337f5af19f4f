// A block per sample and group; a thread takes up to eight neighbouring channels of a row at a time. Gradients of gamma
// and beta are summed in pieces of rows first, whose sums are added in order.
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

// Calls f(element, channel, channels) for the thread's share of its group: channels are up to eight.
template <typename Thread, typename F>
WEFT_DEVICE void ForChannels(const Thread& thread, const GroupNormShape& norm, const Group& group, F f) {
  const int64_t of_row = Divide(group.width + kBlock - 1, kBlock);
  for (int64_t b = thread.index(); b < norm.rows * of_row; b += thread.count()) {
    const int64_t row = Divide(b, of_row), column = (b - row * of_row) * kBlock;
    f(group.first + row * norm.columns + column, group.channel + column, group.width - column);
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
    const bool aligned = group.width % kBlock == 0;
    const C count = static_cast<C>(norm.rows * group.width);
    C sum = 0;
    ForChannels(thread, norm, group, [&](int64_t e, int64_t, int64_t channels) {
      C x[kBlock];
      LoadSome(args.x, e, channels, aligned, x);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) sum += x[i];
    });
    const C average = BlockFold(thread, 0, sum, Plus()) / count;
    C squares = 0;
    ForChannels(thread, norm, group, [&](int64_t e, int64_t, int64_t channels) {
      C x[kBlock];
      LoadSome(args.x, e, channels, aligned, x);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) squares += i < channels ? (x[i] - average) * (x[i] - average) : C(0);
    });
    squares = BlockFold(thread, 0, squares, Plus());
    const C inverse = C(1) / Sqrt(squares / count + static_cast<C>(args.epsilon));
    ForChannels(thread, norm, group, [&](int64_t e, int64_t channel, int64_t channels) {
      C x[kBlock], gamma[kBlock], beta[kBlock];
      LoadSome(args.x, e, channels, aligned, x);
      LoadSome(args.gamma, channel, channels, aligned, gamma);
      LoadSome(args.beta, channel, channels, aligned, beta);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) x[i] = (x[i] - average) * inverse * gamma[i] + beta[i];
      StoreSome(args.y, e, channels, aligned, x);
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
    const bool aligned = group.width % kBlock == 0;
    const C count = static_cast<C>(norm.rows * group.width);
    const C average = Load<C>(args.mean, thread.block()), inverse = Load<C>(args.rstd, thread.block());
    // h and z.
    const auto load = [&](int64_t e, int64_t channel, int64_t channels, C(&h)[kBlock], C(&z)[kBlock]) {
      C gamma[kBlock];
      LoadSome(args.dy, e, channels, aligned, h);
      LoadSome(args.x, e, channels, aligned, z);
      LoadSome(args.gamma, channel, channels, aligned, gamma);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        h[i] *= gamma[i];
        z[i] = (z[i] - average) * inverse;
      }
    };
    Pair<C> sums = {C(0), C(0)};
    ForChannels(thread, norm, group, [&](int64_t e, int64_t channel, int64_t channels) {
      C h[kBlock], z[kBlock];
      load(e, channel, channels, h, z);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        // h is 0 beyond the channels.
        sums.first += h[i];
        sums.second += h[i] * z[i];
      }
    });
    sums = BlockFold(thread, 0, sums, Plus());
    const C plain = sums.first / count, product = sums.second / count;
    ForChannels(thread, norm, group, [&](int64_t e, int64_t channel, int64_t channels) {
      C h[kBlock], z[kBlock];
      load(e, channel, channels, h, z);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) h[i] = inverse * (h[i] - plain - z[i] * product);
      WriteSome(args.dx, e, channels, aligned, norm.accumulate, h);
    });
  }
};

// A block takes 32 columns of one piece; its warps take rows in turns, and their sums are added in order.
template <typename C>
struct WeightPieces {
  static constexpr int kMaxThreads = kThreads;
  GroupNormWeight args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const GroupNormShape& norm = args.shape;
    const auto shared = thread.template Shared<Pair<C>>(0, thread.count());
    const int64_t pieces = args.pieces(), piece = Modulo(thread.block(), pieces), rows = norm.samples * norm.rows;
    const int64_t column = Divide(thread.block(), pieces) * kWarp + thread.lane();
    const int64_t each = Divide(rows + pieces - 1, pieces);
    Pair<C> sums = {C(0), C(0)};
    if (column < norm.columns) {
      const int64_t group = Divide(column, Divide(norm.columns, norm.groups));
      const int64_t end = Least(rows, (piece + 1) * each);
      for (int64_t row = piece * each + thread.warp(); row < end; row += thread.warps()) {
        const int64_t index = Divide(row, norm.rows) * norm.groups + group, e = row * norm.columns + column;
        const C gradient = Load<C>(args.dy, e);
        sums.first += gradient * ((Load<C>(args.x, e) - Load<C>(args.mean, index)) * Load<C>(args.rstd, index));
        sums.second += gradient;
      }
    }
    shared[thread.index()] = sums;
    thread.Sync();
    if (thread.warp() != 0 || column >= norm.columns) return;
    for (int warp = 1; warp < thread.warps(); ++warp) sums = Plus()(sums, shared[warp * kWarp + thread.lane()]);
    static_cast<Pair<C>*>(args.scratch)[piece * norm.columns + column] = sums;
  }
};

template <typename C>
struct AddPieces {
  static constexpr int kMaxThreads = kThreads;
  GroupNormWeight args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t column = thread.block() * thread.count() + thread.index();
    if (column >= args.shape.columns) return;
    Pair<C> sums = {C(0), C(0)};
    for (int64_t piece = 0; piece < args.pieces(); ++piece) {
      sums = Plus()(sums, static_cast<const Pair<C>*>(args.scratch)[piece * args.shape.columns + column]);
    }
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

template <typename C>
Outcome LaunchWeight(const GroupNormWeight& args, void* stream) {
  const int64_t columns = args.shape.columns;
  const Outcome outcome =
      LaunchKernel(WeightPieces<C>{args}, CeilDivide(columns, kWarp) * args.pieces(), kThreads, kPairBytes<C>, stream);
  if (outcome != nullptr) return outcome;
  return LaunchKernel(AddPieces<C>{args}, CeilDivide(columns, kThreads), kThreads, 0, stream);
}

Outcome Launch(const GroupNormWeight& args, void* stream) {
  return args.shape.in_double ? LaunchWeight<double>(args, stream) : LaunchWeight<float>(args, stream);
}

}  // namespace weft::cuda
