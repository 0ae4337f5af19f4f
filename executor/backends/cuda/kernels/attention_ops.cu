// Attention as ops of its own: products of any layout as tiles, softmax with a block per query and head.
#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/attention_ops.h"
#include "executor/backends/cuda/kernels/block_fold.h"
#include "executor/backends/cuda/kernels/tile_product.h"

namespace weft::cuda {
namespace {

// One product per sequence and head of q.
template <typename C>
struct PairsOfHeads {
  using Compute = C;
  static constexpr int64_t kRun = 0;
  static constexpr bool left_by_depth = true, right_by_depth = true;
  ProductShape shape;
  HeadPairs args;

  WEFT_DEVICE int64_t Head(int64_t p) const { return Modulo(p, args.shape.heads); }
  WEFT_DEVICE int64_t Row(int64_t p, int64_t i) const { return Divide(p, args.shape.heads) * args.shape.sequence + i; }
  WEFT_DEVICE C Left(int64_t p, int64_t i, int64_t c) const {
    return Load<C>(args.queries.array, args.queries.Element(Row(p, i), Head(p)) + c);
  }
  WEFT_DEVICE C Right(int64_t p, int64_t c, int64_t j) const {
    return Load<C>(args.keys.array, args.keys.Element(Row(p, j), Divide(Head(p), args.shape.group())) + c);
  }
  WEFT_DEVICE void Write(int64_t p, int64_t i, int64_t j, C sum) const {
    Store<C>(args.pairs.array, args.pairs.Element(Row(p, i), Head(p)) + j, static_cast<C>(args.factor) * sum);
  }
};

template <typename C>
struct SumsOfHeads {
  using Compute = C;
  static constexpr int64_t kRun = 0;
  static constexpr bool left_by_depth = true, right_by_depth = false;
  ProductShape shape;
  HeadSums args;

  WEFT_DEVICE int64_t Head(int64_t p) const { return Modulo(p, args.shape.heads); }
  WEFT_DEVICE int64_t Row(int64_t p, int64_t i) const { return Divide(p, args.shape.heads) * args.shape.sequence + i; }
  WEFT_DEVICE C Left(int64_t p, int64_t i, int64_t j) const {
    return Load<C>(args.pairs.array, args.pairs.Element(Row(p, i), Head(p)) + j);
  }
  WEFT_DEVICE C Right(int64_t p, int64_t j, int64_t c) const {
    return Load<C>(args.keys.array, args.keys.Element(Row(p, j), Divide(Head(p), args.shape.group())) + c);
  }
  WEFT_DEVICE void Write(int64_t p, int64_t i, int64_t c, C sum) const {
    Store<C>(args.result.array, args.result.Element(Row(p, i), Head(p)) + c, static_cast<C>(args.factor) * sum);
  }
};

// One product per sequence and head of k; its depth runs over the heads of q that share it, then over queries.
template <typename C>
struct SumsOfGroups {
  using Compute = C;
  static constexpr int64_t kRun = 0;
  static constexpr bool left_by_depth = false, right_by_depth = false;
  ProductShape shape;
  GroupSums args;

  // Of q: head and row.
  WEFT_DEVICE int64_t Head(int64_t p, int64_t k) const {
    return Modulo(p, args.shape.kv_heads) * args.shape.group() + Divide(k, args.shape.sequence);
  }
  WEFT_DEVICE int64_t Row(int64_t p, int64_t i) const {
    return Divide(p, args.shape.kv_heads) * args.shape.sequence + i;
  }
  WEFT_DEVICE C Left(int64_t p, int64_t j, int64_t k) const {
    return Load<C>(args.pairs.array, args.pairs.Element(Row(p, Modulo(k, args.shape.sequence)), Head(p, k)) + j);
  }
  WEFT_DEVICE C Right(int64_t p, int64_t k, int64_t c) const {
    return Load<C>(args.queries.array, args.queries.Element(Row(p, Modulo(k, args.shape.sequence)), Head(p, k)) + c);
  }
  WEFT_DEVICE void Write(int64_t p, int64_t j, int64_t c, C sum) const {
    Store<C>(args.result.array, args.result.Element(Row(p, j), Modulo(p, args.shape.kv_heads)) + c,
             static_cast<C>(args.factor) * sum);
  }
};

struct Clear {
  static constexpr int kMaxThreads = 256;
  ClearHeads args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t row = thread.block();
    const int64_t width = args.shape.width;
    for (int64_t e = thread.index(); e < args.heads * width; e += thread.count()) {
      const int64_t head = Divide(e, width);
      Store<float>(args.part.array, args.part.Element(row, head) + e - head * width, 0.0f);
    }
  }
};

constexpr int kSoftmaxThreads = 128;

struct Larger {
  template <typename C>
  WEFT_DEVICE C operator()(C a, C b) const {
    return a < b ? b : a;
  }
};
struct Plus {
  template <typename C>
  WEFT_DEVICE C operator()(C a, C b) const {
    return a + b;
  }
};

// A block per query and head, in the order of memory.
template <typename C>
struct Softmax {
  static constexpr int kMaxThreads = kSoftmaxThreads;
  PairsSoftmax args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t first = thread.block() * args.shape.sequence;
    const int64_t query = Modulo(Divide(thread.block(), args.shape.heads), args.shape.sequence);
    const int64_t end = args.causal ? query + 1 : args.shape.sequence;
    const int64_t begin = args.causal && args.window > 0 ? Largest(int64_t{0}, end - args.window) : 0;
    C most = C(-INFINITY);
    for (int64_t j = begin + thread.index(); j < end; j += thread.count())
      most = Largest(most, Load<C>(args.s, first + j));
    most = BlockFold(thread, 0, most, Larger());
    C sum = 0;
    for (int64_t j = begin + thread.index(); j < end; j += thread.count())
      sum += Exp(Load<C>(args.s, first + j) - most);
    sum = BlockFold(thread, 0, sum, Plus());
    const C inverse = C(1) / sum;
    // A thread writes what it alone has read: s and p may be the same.
    for (int64_t j = begin + thread.index(); j < end; j += thread.count()) {
      Store<C>(args.p, first + j, Exp(Load<C>(args.s, first + j) - most) * inverse);
    }
    for (int64_t j = thread.index(); j < args.shape.sequence; j += thread.count()) {
      if (j < begin || j >= end) Store<C>(args.p, first + j, C(0));
    }
  }
};

template <typename C>
struct SoftmaxGradient {
  static constexpr int kMaxThreads = kSoftmaxThreads;
  PairsSoftmaxGradient args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t first = thread.block() * args.shape.sequence, end = first + args.shape.sequence;
    C sum = 0;
    for (int64_t e = first + thread.index(); e < end; e += thread.count())
      sum += Load<C>(args.dp, e) * Load<C>(args.p, e);
    sum = BlockFold(thread, 0, sum, Plus());
    for (int64_t e = first + thread.index(); e < end; e += thread.count()) {
      Store<C>(args.ds, e, Load<C>(args.p, e) * (Load<C>(args.dp, e) - sum));
    }
  }
};

// Calls f.template operator()<C>().
template <typename F>
Outcome WithCompute(bool in_double, F f) {
  return in_double ? f.template operator()<double>() : f.template operator()<float>();
}

}  // namespace

Outcome Launch(const HeadPairs& args, void* stream) {
  const HeadShape& s = args.shape;
  const ProductShape shape = {s.sequences * s.heads, s.sequence, s.sequence, s.width};
  return WithCompute(args.in_double,
                     [&]<typename C>() { return LaunchTileProduct(PairsOfHeads<C>{shape, args}, stream); });
}

Outcome Launch(const HeadSums& args, void* stream) {
  const HeadShape& s = args.shape;
  const ProductShape shape = {s.sequences * s.heads, s.sequence, s.width, s.sequence};
  return WithCompute(args.in_double,
                     [&]<typename C>() { return LaunchTileProduct(SumsOfHeads<C>{shape, args}, stream); });
}

Outcome Launch(const GroupSums& args, void* stream) {
  const HeadShape& s = args.shape;
  const ProductShape shape = {s.sequences * s.kv_heads, s.sequence, s.width, s.group() * s.sequence};
  return WithCompute(args.in_double,
                     [&]<typename C>() { return LaunchTileProduct(SumsOfGroups<C>{shape, args}, stream); });
}

Outcome Launch(const ClearHeads& args, void* stream) {
  return LaunchKernel(Clear{args}, args.shape.sequences * args.shape.sequence, 256, 0, stream);
}

Outcome Launch(const PairsSoftmax& args, void* stream) {
  const int64_t blocks = args.shape.sequences * args.shape.sequence * args.shape.heads;
  return WithCompute(args.in_double, [&]<typename C>() {
    return LaunchKernel(Softmax<C>{args}, blocks, kSoftmaxThreads, kSoftmaxThreads * int64_t{sizeof(C)}, stream);
  });
}

Outcome Launch(const PairsSoftmaxGradient& args, void* stream) {
  const int64_t blocks = args.shape.sequences * args.shape.sequence * args.shape.heads;
  return WithCompute(args.in_double, [&]<typename C>() {
    return LaunchKernel(SoftmaxGradient<C>{args}, blocks, kSoftmaxThreads, kSoftmaxThreads * int64_t{sizeof(C)},
                        stream);
  });
}

}  // namespace weft::cuda
