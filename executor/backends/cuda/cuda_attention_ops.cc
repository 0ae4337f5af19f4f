// Attention as separate ops: scores, their softmax, and the weighted sum of values. The library runs the products,
// batched over sequences or heads, if types and alignment allow it; else the backend's own kernels do.
#include <algorithm>

#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/cuda_heads.h"
#include "executor/backends/cuda/kernels/attention_ops.h"
#include "executor/backends/cuda/kernels/pairs_softmax.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

// Returns the number of columns of q. `matrix` is qkv, or k or v if q, k and v are separate.
int64_t QueryColumns(const Call& call, const TensorView& matrix) {
  const int64_t kv_heads = call.attributes().kv_heads();
  return kv_heads == 0 ? Columns(matrix) / 3 : Columns(matrix) / kv_heads * call.attributes().heads();
}

// `columns` is the number of columns of q.
HeadShape ShapeOf(const Call& call, int64_t rows, int64_t columns) {
  HeadShape shape;
  shape.sequence = call.attributes().sequence();
  shape.sequences = rows / shape.sequence;
  shape.heads = call.attributes().heads();
  shape.kv_heads = call.attributes().kv_heads() > 0 ? call.attributes().kv_heads() : shape.heads;
  shape.width = columns / shape.heads;
  return shape;
}

HeadPart Pairs(const HeadShape& shape, const TensorView& view) { return PartOf(view, shape.sequence); }

// Returns q, k or v: a separate tensor, or one of the three in qkv.
HeadPart Operand(const Call& call, const HeadShape& shape, const TensorView& view, int index) {
  return call.attributes().kv_heads() > 0 ? PartOf(view, shape.width) : PartOfQkv(call, view, index);
}

// A factor or the result of a set of products, with one matrix per sequence and head. The set takes every `step`-th
// head from `first_head` on. The rows of a matrix are the rows of its sequence.
struct Factor {
  const HeadPart& part;
  int64_t first_head, step;

  MatrixLayout Layout(int64_t batch_stride) const { return {part.array.type, part.stride, batch_stride}; }
  // Distances in elements: between neighboring heads of the set, and between sequences.
  int64_t HeadStride() const { return step * part.head_step; }
  int64_t SequenceStride(const HeadShape& shape) const { return shape.sequence * part.stride; }
  void* At(int64_t row, int64_t head) const {
    return static_cast<char*>(part.array.data) +
           part.Element(row, first_head + head * step) * ElementBytes(part.array.type);
  }
  // True if every matrix begins at a multiple of 64 bytes, as whole tensors do. The library reads 16 bytes at a time.
  bool Aligned() const {
    const int64_t bytes = ElementBytes(part.array.type);
    return part.head_step * bytes % 64 == 0 && part.first_column * bytes % 64 == 0 && part.stride * bytes % 64 == 0;
  }
};

struct Batch {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  double scale;
};

bool LibraryTakes(const HeadPart& a, const HeadPart& b, const HeadPart& y) {
  return a.array.type == b.array.type && Factor{a, 0, 1}.Aligned() && Factor{b, 0, 1}.Aligned() &&
         Factor{y, 0, 1}.Aligned();
}

// Runs `count` products for every sequence, one per head. One call runs all of them if the products lie at equal
// distances in memory. Otherwise each call runs all sequences or all heads, whichever needs fewer calls.
absl::Status Multiply(const Call& call, const HeadShape& heads, int64_t count, const Batch& batch, const Factor& a,
                      const Factor& b, const Factor& y) {
  const Factor* const factors[] = {&a, &b, &y};
  const bool one = heads.sequences == 1 || count == 1 || std::all_of(factors, factors + 3, [&](const Factor* factor) {
                     return count * factor->HeadStride() == factor->SequenceStride(heads);
                   });
  const bool by_sequence = count == 1 || (!one && heads.sequences > count);
  const auto layout = [&](const Factor& factor) {
    return factor.Layout(by_sequence ? factor.SequenceStride(heads) : factor.HeadStride());
  };
  MatmulShape shape;
  shape.m = batch.m;
  shape.n = batch.n;
  shape.k = batch.k;
  shape.batch = one ? heads.sequences * count : by_sequence ? heads.sequences : count;
  shape.transpose_a = batch.transpose_a;
  shape.transpose_b = batch.transpose_b;
  shape.a = layout(a);
  shape.b = layout(b);
  shape.y = layout(y);
  shape.scale = batch.scale;
  Matmul& library = *call.resources.libraries.matmul;
  if (shape.batch == 0) return absl::OkStatus();
  if (call.measuring) return call.Prepare(shape);
  const int64_t calls = heads.sequences * count / shape.batch;
  for (int64_t i = 0; i < calls; ++i) {
    const int64_t row = by_sequence ? 0 : i * heads.sequence, head = by_sequence ? i : 0;
    WEFT_RETURN_IF_ERROR(
        library.Run(shape, {a.At(row, head), b.At(row, head), nullptr, y.At(row, head)}, call.stream()));
  }
  return absl::OkStatus();
}

// These functions run the products that attention_ops.h defines, by the library or by the backend's own kernels.
absl::Status Run(const Call& call, const HeadPairs& args) {
  const HeadShape& s = args.shape;
  if (!LibraryTakes(args.queries, args.keys, args.pairs)) return call.Launch(args);
  const Batch batch = {s.sequence, s.sequence, s.width, false, true, args.factor};
  for (int64_t g = 0; g < s.group(); ++g) {
    WEFT_RETURN_IF_ERROR(Multiply(call, s, s.kv_heads, batch, {args.queries, g, s.group()}, {args.keys, 0, 1},
                                  {args.pairs, g, s.group()}));
  }
  return absl::OkStatus();
}

absl::Status Run(const Call& call, const HeadSums& args) {
  const HeadShape& s = args.shape;
  if (!LibraryTakes(args.pairs, args.keys, args.result)) return call.Launch(args);
  const Batch batch = {s.sequence, s.width, s.sequence, false, false, args.factor};
  for (int64_t g = 0; g < s.group(); ++g) {
    WEFT_RETURN_IF_ERROR(Multiply(call, s, s.kv_heads, batch, {args.pairs, g, s.group()}, {args.keys, 0, 1},
                                  {args.result, g, s.group()}));
  }
  return absl::OkStatus();
}

absl::Status Run(const Call& call, const GroupSums& args) {
  const HeadShape& s = args.shape;
  // If several heads share k and v, the library would round the sum over these heads after each head.
  if (s.group() != 1 || !LibraryTakes(args.pairs, args.queries, args.result)) return call.Launch(args);
  const Batch batch = {s.sequence, s.width, s.sequence, true, false, args.factor};
  return Multiply(call, s, s.heads, batch, {args.pairs, 0, 1}, {args.queries, 0, 1}, {args.result, 0, 1});
}

}  // namespace

absl::Status AttentionScores(const Call& call) {
  const int64_t rows = Rows(call.in[0]), columns = QueryColumns(call, call.in.back());
  const HeadShape shape = ShapeOf(call, rows, columns);
  return Run(call,
             HeadPairs{shape, ComputesInDouble(call.in), Operand(call, shape, call.in[0], 0),
                       Operand(call, shape, call.in.back(), 1), call.attributes().scale(), Pairs(shape, call.out[0])});
}

absl::Status AttentionScoresBackward(const Call& call) {
  const int64_t rows = Rows(call.in[1]), columns = QueryColumns(call, call.in.back());
  const HeadShape shape = ShapeOf(call, rows, columns);
  const bool in_double = ComputesInDouble(call.in);
  const double scale = call.attributes().scale();
  const HeadPart ds = Pairs(shape, call.in[0]);
  WEFT_RETURN_IF_ERROR(Run(call, HeadSums{shape, in_double, ds, Operand(call, shape, call.in.back(), 1), scale,
                                          Operand(call, shape, call.out[0], 0)}));
  WEFT_RETURN_IF_ERROR(Run(call, GroupSums{shape, in_double, ds, Operand(call, shape, call.in[1], 0), scale,
                                           Operand(call, shape, call.out.back(), 1)}));
  if (call.attributes().kv_heads() > 0) return absl::OkStatus();
  return call.Launch(ClearHeads{shape, shape.kv_heads, PartOfQkv(call, call.out[0], 2)});
}

absl::Status AttentionSoftmax(const Call& call) {
  PairsSoftmax args;
  args.shape = ShapeOf(call, Rows(call.in[0]), 0);
  args.in_double = ComputesInDouble(call.in);
  args.causal = call.attributes().causal();
  args.window = call.attributes().window();
  args.s = ArrayOf(call.in[0]);
  args.p = ArrayOf(call.out[0]);
  return call.Launch(args);
}

absl::Status AttentionSoftmaxBackward(const Call& call) {
  PairsSoftmaxGradient args;
  args.shape = ShapeOf(call, Rows(call.in[0]), 0);
  args.in_double = ComputesInDouble(call.in);
  args.dp = ArrayOf(call.in[0]);
  args.p = ArrayOf(call.in[1]);
  args.ds = ArrayOf(call.out[0]);
  return call.Launch(args);
}

absl::Status AttentionValues(const Call& call) {
  const int64_t rows = Rows(call.in[0]), columns = QueryColumns(call, call.in[1]);
  const HeadShape shape = ShapeOf(call, rows, columns);
  return Run(call, HeadSums{shape, ComputesInDouble(call.in), Pairs(shape, call.in[0]),
                            Operand(call, shape, call.in[1], 2), 1, PartOf(call.out[0], shape.width)});
}

absl::Status AttentionValuesBackward(const Call& call) {
  const int64_t rows = Rows(call.in[1]), columns = QueryColumns(call, call.in[2]);
  const HeadShape shape = ShapeOf(call, rows, columns);
  const bool in_double = ComputesInDouble(call.in);
  const HeadPart d_o = PartOf(call.in[0], shape.width), p = Pairs(shape, call.in[1]);
  WEFT_RETURN_IF_ERROR(
      Run(call, HeadPairs{shape, in_double, d_o, Operand(call, shape, call.in[2], 2), 1, Pairs(shape, call.out[0])}));
  WEFT_RETURN_IF_ERROR(Run(call, GroupSums{shape, in_double, p, d_o, 1, Operand(call, shape, call.out[1], 2)}));
  if (call.attributes().kv_heads() > 0) return absl::OkStatus();
  for (const int index : {0, 1}) {
    WEFT_RETURN_IF_ERROR(call.Launch(ClearHeads{shape, shape.heads, PartOfQkv(call, call.out[1], index)}));
  }
  return absl::OkStatus();
}

}  // namespace weft::exec::cuda
