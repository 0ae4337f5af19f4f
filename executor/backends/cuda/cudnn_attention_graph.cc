#include "executor/backends/cuda/cudnn_attention_graph.h"

#include "absl/strings/str_cat.h"

namespace weft::exec::cuda {
namespace {

constexpr cudnnDataType_t kFloat = CUDNN_DATA_FLOAT;

// Shapes in the graphs: b sequences, h heads of q, g heads of k and v, s rows of a sequence, d columns of a head.
struct Shapes {
  Shapes(const AttentionShape& shape, const AttentionSlice& slice)
      : b(slice.batch),
        h(shape.heads / shape.kv_heads * slice.kv_heads),
        g(slice.kv_heads),
        s(shape.sequence),
        d(shape.head_size),
        type(CudnnType(shape.type)),
        q(Heads(h, shape.q)),
        k(Heads(g, shape.k)),
        v(Heads(g, shape.v)),
        o(Heads(h, shape.o)),
        // Statistics lie head by head, as cuDNN documents them. A slice has either all heads or a single sequence.
        lse({{b, h, s, 1}, {s * shape.heads, s, 1, 1}}),
        scores(CudnnShape::Dense(b, h, s, s)),
        rows(CudnnShape::Dense(b, h, s, 1)),
        wide(CudnnShape::Dense(b, h, s, d)) {}

  CudnnShape Heads(int64_t heads, const HeadLayout& layout) const {
    return {{b, heads, s, d}, {s * layout.row_stride, layout.head_stride, layout.row_stride, 1}};
  }

  int64_t b, h, g, s, d;
  cudnnDataType_t type;
  CudnnShape q, k, v, o, lse, scores;
  // `rows`: one number for each row and head of q. `wide`: d numbers for each row and head of q, also for the gradients
  // of k and v before the heads of q that share them are summed.
  CudnnShape rows, wide;
};

// Returns the scores with `masked` in place of every score whose key comes after its query. A score is kept if its row
// index >= its column index. cuDNN recognizes these four operations as a causal mask.
CudnnGraph::Tensor Mask(CudnnGraph& graph, const CudnnShape& all, CudnnGraph::Tensor scores,
                        CudnnGraph::Tensor masked) {
  const CudnnGraph::Tensor row = graph.Virtual("row", CUDNN_DATA_INT32, all);
  const CudnnGraph::Tensor column = graph.Virtual("column", CUDNN_DATA_INT32, all);
  const CudnnGraph::Tensor seen = graph.Virtual("seen", CUDNN_DATA_BOOLEAN, all);
  const CudnnGraph::Tensor result = graph.Virtual("masked scores", kFloat, all);
  graph.Index(2, scores, row);
  graph.Index(3, scores, column);
  graph.Pointwise(CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, row, column, seen);
  graph.Select(scores, masked, seen, result);
  return result;
}

// Returns these scores with `masked` in place of every score whose key comes before the query's window. A score is kept
// if column index + window > row index. cuDNN recognizes these operations as the left bound of a band.
CudnnGraph::Tensor LeaveWindow(CudnnGraph& graph, const CudnnShape& all, CudnnGraph::Tensor scores,
                               CudnnGraph::Tensor masked, CudnnGraph::Tensor window) {
  const CudnnGraph::Tensor row = graph.Virtual("row of the band", CUDNN_DATA_INT32, all);
  const CudnnGraph::Tensor column = graph.Virtual("column of the band", CUDNN_DATA_INT32, all);
  const CudnnGraph::Tensor last = graph.Virtual("column and window", kFloat, all);
  const CudnnGraph::Tensor seen = graph.Virtual("within the band", CUDNN_DATA_BOOLEAN, all);
  const CudnnGraph::Tensor result = graph.Virtual("scores of the band", kFloat, all);
  graph.Index(2, scores, row);
  graph.Index(3, scores, column);
  graph.Pointwise(CUDNN_POINTWISE_ADD, kFloat, column, window, last);
  graph.Pointwise(CUDNN_POINTWISE_CMP_GT, CUDNN_DATA_BOOLEAN, last, row, seen);
  graph.Select(scores, masked, seen, result);
  return result;
}

// Applies all masks of the shape. Creates `masked` and `window` if the masks need them.
CudnnGraph::Tensor Masks(CudnnGraph& graph, const AttentionShape& shape, const CudnnShape& all,
                         CudnnGraph::Tensor scores, CudnnGraph::Tensor* masked, CudnnGraph::Tensor* window) {
  if (!shape.causal) return scores;
  *masked = graph.Number("masked", kFloat);
  scores = Mask(graph, all, scores, *masked);
  if (!HasWindow(shape)) return scores;
  *window = graph.Number("window", kFloat);
  return LeaveWindow(graph, all, scores, *masked, *window);
}

std::string Name(const char* direction, const AttentionShape& shape, const Shapes& shapes) {
  return absl::StrCat("attention ", direction, " of ", shapes.b, " x ", shapes.s, " rows, ", shapes.h, " heads of ",
                      shapes.d, " (", shapes.g, " of k and v)", shape.causal ? ", causal" : "",
                      HasWindow(shape) ? absl::StrCat(", window ", shape.window) : "");
}

}  // namespace

cudnnDataType_t CudnnType(Type type) { return type == Type::kFp16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16; }

bool HasWindow(const AttentionShape& shape) {
  return shape.causal && shape.window > 0 && shape.window < shape.sequence;
}

AttentionForwardGraph MakeAttentionForwardGraph(const Cudnn* cudnn, const AttentionShape& shape,
                                                const AttentionSlice& slice) {
  const Shapes shapes(shape, slice);
  AttentionForwardGraph made{CudnnGraph(cudnn, Name("forward", shape, shapes)), 0, 0, 0, 0, 0, 0, 0, 0};
  CudnnGraph& graph = made.graph;
  const CudnnShape &all = shapes.scores, &per_row = shapes.rows;
  made.q = graph.InMemory("q", shapes.type, shapes.q);
  made.k = graph.InMemory("k", shapes.type, shapes.k.Transposed());
  made.v = graph.InMemory("v", shapes.type, shapes.v);
  made.o = graph.InMemory("o", shapes.type, shapes.o);
  made.lse = graph.InMemory("lse", kFloat, shapes.lse, sizeof(float));
  made.scale = graph.Number("scale", kFloat);

  // scores = scale q kᵀ, masked
  const CudnnGraph::Tensor product = graph.Virtual("q k", kFloat, all);
  const CudnnGraph::Tensor scaled = graph.Virtual("scores", kFloat, all);
  graph.Matmul(made.q, made.k, product);
  graph.Pointwise(CUDNN_POINTWISE_MUL, kFloat, product, made.scale, scaled);
  const CudnnGraph::Tensor scores = Masks(graph, shape, all, scaled, &made.masked, &made.window);
  // softmax, and lse = largest + log of the sum
  const CudnnGraph::Tensor largest = graph.Virtual("largest", kFloat, per_row);
  const CudnnGraph::Tensor less = graph.Virtual("scores less largest", kFloat, all);
  const CudnnGraph::Tensor exponential = graph.Virtual("exponential", kFloat, all);
  const CudnnGraph::Tensor sum = graph.Virtual("sum", kFloat, per_row);
  const CudnnGraph::Tensor logarithm = graph.Virtual("logarithm", kFloat, per_row);
  const CudnnGraph::Tensor probabilities = graph.Virtual("probabilities", shapes.type, all);
  graph.Reduce(CUDNN_REDUCE_TENSOR_MAX, scores, largest);
  graph.Pointwise(CUDNN_POINTWISE_SUB, kFloat, scores, largest, less);
  graph.Pointwise(CUDNN_POINTWISE_EXP, kFloat, less, exponential);
  graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, exponential, sum);
  graph.Pointwise(CUDNN_POINTWISE_LOG, kFloat, sum, logarithm);
  graph.Pointwise(CUDNN_POINTWISE_ADD, kFloat, largest, logarithm, made.lse);
  graph.Pointwise(CUDNN_POINTWISE_DIV, kFloat, exponential, sum, probabilities);
  // o = probabilities v
  graph.Matmul(probabilities, made.v, made.o);
  return made;
}

AttentionBackwardGraph MakeAttentionBackwardGraph(const Cudnn* cudnn, const AttentionShape& shape,
                                                  const AttentionSlice& slice) {
  const Shapes shapes(shape, slice);
  AttentionBackwardGraph made{
      CudnnGraph(cudnn, Name("backward", shape, shapes)), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  CudnnGraph& graph = made.graph;
  const CudnnShape &all = shapes.scores, &per_row = shapes.rows;
  made.q = graph.InMemory("q", shapes.type, shapes.q);
  made.k = graph.InMemory("k", shapes.type, shapes.k.Transposed());
  made.v = graph.InMemory("v", shapes.type, shapes.v.Transposed());
  made.o = graph.InMemory("o", shapes.type, shapes.o);
  made.lse = graph.InMemory("lse", kFloat, shapes.lse, sizeof(float));
  made.d_o = graph.InMemory("do", shapes.type, shapes.o);
  made.dq = graph.InMemory("dq", shapes.type, shapes.q);
  made.dk = graph.InMemory("dk", shapes.type, shapes.k);
  made.dv = graph.InMemory("dv", shapes.type, shapes.v);
  made.scale = graph.Number("scale", kFloat);
  made.one = graph.Number("one", kFloat);
  made.sums = graph.InMemory("sums", kFloat, per_row);

  // sums = row sums of do * o
  const CudnnGraph::Tensor product = graph.Virtual("do o", kFloat, shapes.wide);
  const CudnnGraph::Tensor added = graph.Virtual("rows of do o", kFloat, per_row);
  graph.Pointwise(CUDNN_POINTWISE_MUL, kFloat, made.d_o, made.o, product);
  graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, product, added);
  graph.Pointwise(CUDNN_POINTWISE_MUL, kFloat, added, made.one, made.sums);

  // probabilities = exp(scale q kᵀ - lse), masked
  const CudnnGraph::Tensor qk = graph.Virtual("q k", kFloat, all);
  const CudnnGraph::Tensor scaled = graph.Virtual("scores", kFloat, all);
  const CudnnGraph::Tensor less = graph.Virtual("scores less lse", kFloat, all);
  graph.Matmul(made.q, made.k, qk);
  graph.Pointwise(CUDNN_POINTWISE_MUL, kFloat, qk, made.scale, scaled);
  graph.Pointwise(CUDNN_POINTWISE_SUB, kFloat, scaled, made.lse, less);
  const CudnnGraph::Tensor scores = Masks(graph, shape, all, less, &made.masked, &made.window);
  const CudnnGraph::Tensor probabilities = graph.Virtual("probabilities", kFloat, all);
  graph.Pointwise(CUDNN_POINTWISE_EXP, kFloat, scores, probabilities);

  // dv = probabilitiesᵀ do
  const CudnnGraph::Tensor turned = graph.Virtual("probabilities, turned", shapes.type, all.Transposed());
  graph.Reshape(probabilities, turned);
  if (shape.heads == shape.kv_heads) {
    graph.Matmul(turned, made.d_o, made.dv);
  } else {
    const CudnnGraph::Tensor each = graph.Virtual("dv of each head", shapes.type, shapes.wide);
    graph.Matmul(turned, made.d_o, each);
    graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, each, made.dv);
  }

  // dscores = scale probabilities (do vᵀ - sums)
  const CudnnGraph::Tensor dp = graph.Virtual("do v", kFloat, all);
  const CudnnGraph::Tensor difference = graph.Virtual("do v less sums", kFloat, all);
  const CudnnGraph::Tensor weighted = graph.Virtual("weighted", kFloat, all);
  const CudnnGraph::Tensor ds = graph.Virtual("dscores", kFloat, all);
  graph.Matmul(made.d_o, made.v, dp);
  graph.Pointwise(CUDNN_POINTWISE_SUB, kFloat, dp, made.sums, difference);
  graph.Pointwise(CUDNN_POINTWISE_MUL, kFloat, difference, probabilities, weighted);
  graph.Pointwise(CUDNN_POINTWISE_MUL, kFloat, weighted, made.scale, ds);

  // dk = dscoresᵀ q
  const CudnnGraph::Tensor ds_turned = graph.Virtual("dscores, turned", shapes.type, all.Transposed());
  graph.Reshape(ds, ds_turned);
  if (shape.heads == shape.kv_heads) {
    graph.Matmul(ds_turned, made.q, made.dk);
  } else {
    const CudnnGraph::Tensor each = graph.Virtual("dk of each head", shapes.type, shapes.wide);
    graph.Matmul(ds_turned, made.q, each);
    graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, each, made.dk);
  }

  // dq = dscores k. Each element is written once: if many blocks added to it, their order would change the bits.
  const CudnnGraph::Tensor k_rows = graph.Virtual("k, rows", shapes.type, shapes.k);
  graph.Reshape(made.k, k_rows);
  graph.Matmul(ds, k_rows, made.dq);
  return made;
}

}  // namespace weft::exec::cuda
