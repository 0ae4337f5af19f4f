// Computes the products of attention in tiles, for any layout of the arrays.
#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/attention_ops.h"
#include "executor/backends/cuda/kernels/tile_product.h"

namespace weft::exec::cuda {
namespace {

// Computes HeadPairs: one matrix product per sequence and head of q.
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

// Computes GroupSums: one matrix product per sequence and head of k. Each element is a sum over the heads of q that
// share the head of k, then over queries.
template <typename C>
struct SumsOfGroups {
  using Compute = C;
  static constexpr int64_t kRun = 0;
  static constexpr bool left_by_depth = false, right_by_depth = false;
  ProductShape shape;
  GroupSums args;

  // Head returns the head of q that term k of product p belongs to. Row returns the row of position i in the sequence
  // of product p.
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

}  // namespace weft::exec::cuda
