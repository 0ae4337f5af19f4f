// Attention as separate ops: scores, their softmax, and the weighted sum of values. A product runs one task per
// (sequence, head). The kernels that compute gradients of k or v run one task per head of k and v instead, because
// several heads of q may add to the same gradient.
#include <algorithm>
#include <cstring>

#include "executor/backends/cpu/cpu_heads.h"

namespace weft::exec::cpu {
namespace {

template <typename T>
constexpr Storage kStoredAs = sizeof(T) == 8 ? Storage::kFp64 : Storage::kFp32;

// A matrix [rows, heads * sequence] with one element per (query, key) pair, such as scores or probabilities.
Part Pairs(const Call& call, const TensorView& view) { return {view, 0, call.attributes().sequence()}; }

// Returns q (index 0), k (1) or v (2). If `grouped`, the tensor holds only this operand; else it holds all three.
Part Operand(const Call& call, const TensorView& qkv, bool grouped, int64_t head_width, int index) {
  return grouped ? Part{qkv, 0, head_width} : PartOfQkv(call, qkv, index);
}

// Zeros the rows of one head in `part`, a gradient of k or v.
template <typename T>
void Clear(const Geometry& g, const Head<T>& head, const Part& part) {
  for (int64_t row = 0; row < g.sequence; ++row) {
    std::memset(At(part.view, head.Key(part, row)), 0, g.head_width * ElementBytes(part.view.dtype));
  }
}

template <typename T>
void StoreRows(const Call& call, const Geometry& g, const Head<T>& head, const T* sums, const Part& to) {
  for (int64_t row = 0; row < g.sequence; ++row) {
    GetLoops<T>(call).store(sums + row * g.head_width, StorageOf(to.view), g.head_width,
                            At(to.view, head.Key(to, row)));
  }
}

// Calls f(first, queries) for all blocks of queries of one head, in ascending order.
template <typename F>
void ForBlocks(const Geometry& g, F f) {
  for (int64_t first = 0; first < g.sequence; first += kQueries) f(first, std::min(kQueries, g.sequence - first));
}

template <typename T>
void Scores(const Call& call) {
  const bool grouped = call.in.size() == 2;
  const Geometry g(call, Rows(call.in[0]), Columns(call.in[0]) / (grouped ? 1 : 3), grouped);
  const Part q = Operand(call, call.in[0], grouped, g.head_width, 0);
  const Part k = Operand(call, call.in[grouped ? 1 : 0], grouped, g.head_width, 1);
  const Part s = Pairs(call, call.out[0]);
  const Loops<T>& loops = GetLoops<T>(call);
  const T scale = static_cast<T>(call.attributes().scale());
  const int64_t panels = PanelElements(g.head_width, g.sequence), products = MultiplyScratch(g.head_width, g.sequence);
  const int64_t bytes = Arena::Bytes<T>(panels) + Arena::Bytes<T>(products) + Arena::Bytes<T>(kQueries * g.sequence);
  call.pool().Run(g.sequences * g.heads, [&](int64_t task, int thread) {
    Arena arena(call.workspace.thread[thread].Get(bytes));
    T* keys = arena.Take<T>(panels);
    T* scratch = arena.Take<T>(products);
    T* tile = arena.Take<T>(kQueries * g.sequence);
    const Head<T> head(call, g, task / g.heads, task % g.heads);
    loops.pack(Head<T>::At(k, head.Key(k, 0), true), g.head_width, 0, g.sequence, keys);
    ForBlocks(g, [&](int64_t first, int64_t queries) {
      head.Multiply(Head<T>::At(q, head.Query(q, first), false), queries, g.head_width, keys, g.head_width, g.sequence,
                    tile, kStoredAs<T>, g.sequence, false, scratch);
      loops.scale(tile, scale, queries * g.sequence, tile);
      for (int64_t i = 0; i < queries; ++i) {
        loops.store(tile + i * g.sequence, StorageOf(s.view), g.sequence, At(s.view, head.Query(s, first + i)));
      }
    });
  });
}

// dq = scale * ds k and dk = scale * ds^T q. dk is a sum over the heads of q that share it, in ascending order.
template <typename T>
void ScoresBackward(const Call& call) {
  const bool grouped = call.in.size() == 3;
  const Geometry g(call, Rows(call.in[1]), Columns(call.in[1]) / (grouped ? 1 : 3), grouped);
  const Part ds = Pairs(call, call.in[0]);
  const Part q = Operand(call, call.in[1], grouped, g.head_width, 0);
  const Part k = Operand(call, call.in[grouped ? 2 : 1], grouped, g.head_width, 1);
  const Part dq = Operand(call, call.out[0], grouped, g.head_width, 0);
  const Part dk = Operand(call, call.out[grouped ? 1 : 0], grouped, g.head_width, 1);
  const Loops<T>& loops = GetLoops<T>(call);
  const T scale = static_cast<T>(call.attributes().scale());
  const int64_t key_panels = PanelElements(g.sequence, g.head_width);
  const int64_t block_panels = PanelElements(kQueries, g.head_width);
  const int64_t products = std::max(MultiplyScratch(g.sequence, g.head_width), MultiplyScratch(kQueries, g.head_width));
  const int64_t tile_elements = kQueries * g.sequence, sums = g.sequence * g.head_width;
  const int64_t bytes = Arena::Bytes<T>(key_panels) + Arena::Bytes<T>(block_panels) + Arena::Bytes<T>(products) +
                        Arena::Bytes<T>(tile_elements) + Arena::Bytes<T>(sums);
  call.pool().Run(g.sequences * g.kv_heads, [&](int64_t task, int thread) {
    Arena arena(call.workspace.thread[thread].Get(bytes));
    T* keys = arena.Take<T>(key_panels);
    T* block = arena.Take<T>(block_panels);
    T* scratch = arena.Take<T>(products);
    T* tile = arena.Take<T>(tile_elements);
    T* sum = arena.Take<T>(sums);
    const int64_t sequence = task / g.kv_heads, first_head = task % g.kv_heads * g.group();
    const Head<T> shared(call, g, sequence, first_head);
    loops.pack(Head<T>::At(k, shared.Key(k, 0), false), g.sequence, 0, g.head_width, keys);
    std::fill(sum, sum + sums, T(0));
    for (int64_t h = first_head; h < first_head + g.group(); ++h) {
      const Head<T> head(call, g, sequence, h);
      ForBlocks(g, [&](int64_t first, int64_t queries) {
        for (int64_t i = 0; i < queries; ++i) {
          loops.load(At(ds.view, head.Query(ds, first + i)), StorageOf(ds.view), g.sequence, tile + i * g.sequence);
        }
        loops.scale(tile, scale, queries * g.sequence, tile);
        head.Multiply({tile, kStoredAs<T>, g.sequence, false}, queries, g.sequence, keys, g.sequence, g.head_width,
                      At(dq.view, head.Query(dq, first)), StorageOf(dq.view), dq.stride(), false, scratch);
        loops.pack(Head<T>::At(q, head.Query(q, first), false), queries, 0, g.head_width, block);
        head.Multiply({tile, kStoredAs<T>, g.sequence, true}, g.sequence, queries, block, queries, g.head_width, sum,
                      kStoredAs<T>, g.head_width, true, scratch);
      });
    }
    StoreRows(call, g, shared, sum, dk);
    if (!grouped) Clear(g, shared, PartOfQkv(call, call.out[0], 2));
  });
}

template <typename T>
void Softmax(const Call& call) {
  const TensorView &s = call.in[0], &p = call.out[0];
  const int64_t heads = call.attributes().heads(), sequence = call.attributes().sequence();
  const Geometry g(call, Rows(s), heads, false);
  const Loops<T>& loops = GetLoops<T>(call);
  ForRows(call, Rows(s) * heads, sequence, [&](int64_t row, int thread) {
    T* x = call.workspace.thread[thread].template Get<T>(sequence);
    const int64_t query = row / heads % sequence, from = g.FirstKey(query), to = g.Visible(query);
    std::fill(x, x + from, T(0));
    loops.load(At(s, row * sequence + from), StorageOf(s), to - from, x + from);
    loops.softmax(x + from, T(1), to - from);
    std::fill(x + to, x + sequence, T(0));
    loops.store(x, StorageOf(p), sequence, At(p, row * sequence));
  });
}

template <typename T>
void SoftmaxBackward(const Call& call) {
  const TensorView &dp = call.in[0], &p = call.in[1], &ds = call.out[0];
  const int64_t heads = call.attributes().heads(), sequence = call.attributes().sequence();
  const Loops<T>& loops = GetLoops<T>(call);
  ForRows(call, Rows(p) * heads, sequence, [&](int64_t row, int thread) {
    T* x = call.workspace.thread[thread].template Get<T>(2 * sequence);
    loops.load(At(dp, row * sequence), StorageOf(dp), sequence, x);
    const T* probabilities = Read(call, p, row * sequence, sequence, x + sequence);
    loops.softmax_backward(probabilities, loops.dot(x, probabilities, sequence), T(1), sequence, x);
    loops.store(x, StorageOf(ds), sequence, At(ds, row * sequence));
  });
}

template <typename T>
void Values(const Call& call) {
  const bool grouped = call.attributes().kv_heads() > 0;
  const Geometry g(call, Rows(call.in[0]), Columns(call.out[0]), grouped);
  const Part p = Pairs(call, call.in[0]), out{call.out[0], 0, g.head_width};
  const Part v = Operand(call, call.in[1], grouped, g.head_width, 2);
  const Loops<T>& loops = GetLoops<T>(call);
  const int64_t panels = PanelElements(g.sequence, g.head_width), products = MultiplyScratch(g.sequence, g.head_width);
  const int64_t bytes = Arena::Bytes<T>(panels) + Arena::Bytes<T>(products);
  call.pool().Run(g.sequences * g.heads, [&](int64_t task, int thread) {
    Arena arena(call.workspace.thread[thread].Get(bytes));
    T* values = arena.Take<T>(panels);
    T* scratch = arena.Take<T>(products);
    const Head<T> head(call, g, task / g.heads, task % g.heads);
    loops.pack(Head<T>::At(v, head.Key(v, 0), false), g.sequence, 0, g.head_width, values);
    head.Multiply(Head<T>::At(p, head.Query(p, 0), false), g.sequence, g.sequence, values, g.sequence, g.head_width,
                  At(out.view, head.Query(out, 0)), StorageOf(out.view), out.stride(), false, scratch);
  });
}

// dp = do v^T and dv = p^T do. dv is a sum over the heads of q that share it, in ascending order.
template <typename T>
void ValuesBackward(const Call& call) {
  const bool grouped = call.attributes().kv_heads() > 0;
  const Geometry g(call, Rows(call.in[0]), Columns(call.in[0]), grouped);
  const Part d_out{call.in[0], 0, g.head_width}, p = Pairs(call, call.in[1]), dp = Pairs(call, call.out[0]);
  const Part v = Operand(call, call.in[2], grouped, g.head_width, 2);
  const Part dv = Operand(call, call.out[1], grouped, g.head_width, 2);
  const Loops<T>& loops = GetLoops<T>(call);
  const int64_t value_panels = PanelElements(g.head_width, g.sequence);
  const int64_t block_panels = PanelElements(kQueries, g.head_width);
  const int64_t products = std::max(MultiplyScratch(g.head_width, g.sequence), MultiplyScratch(kQueries, g.head_width));
  const int64_t sums = g.sequence * g.head_width;
  const int64_t bytes =
      Arena::Bytes<T>(value_panels) + Arena::Bytes<T>(block_panels) + Arena::Bytes<T>(products) + Arena::Bytes<T>(sums);
  call.pool().Run(g.sequences * g.kv_heads, [&](int64_t task, int thread) {
    Arena arena(call.workspace.thread[thread].Get(bytes));
    T* values = arena.Take<T>(value_panels);
    T* block = arena.Take<T>(block_panels);
    T* scratch = arena.Take<T>(products);
    T* sum = arena.Take<T>(sums);
    const int64_t sequence = task / g.kv_heads, first_head = task % g.kv_heads * g.group();
    const Head<T> shared(call, g, sequence, first_head);
    loops.pack(Head<T>::At(v, shared.Key(v, 0), true), g.head_width, 0, g.sequence, values);
    std::fill(sum, sum + sums, T(0));
    for (int64_t h = first_head; h < first_head + g.group(); ++h) {
      const Head<T> head(call, g, sequence, h);
      ForBlocks(g, [&](int64_t first, int64_t queries) {
        const Matrix gradient = Head<T>::At(d_out, head.Query(d_out, first), false);
        head.Multiply(gradient, queries, g.head_width, values, g.head_width, g.sequence,
                      At(dp.view, head.Query(dp, first)), StorageOf(dp.view), dp.stride(), false, scratch);
        loops.pack(gradient, queries, 0, g.head_width, block);
        head.Multiply(Head<T>::At(p, head.Query(p, first), true), g.sequence, queries, block, queries, g.head_width,
                      sum, kStoredAs<T>, g.head_width, true, scratch);
      });
    }
    StoreRows(call, g, shared, sum, dv);
    if (grouped) return;
    for (int index : {0, 1}) Clear(g, shared, PartOfQkv(call, call.out[1], index));
  });
}

}  // namespace

absl::Status AttentionScores(const Call& call) {
  WithComputeType(call.in, [&]<typename T>() { Scores<T>(call); });
  return absl::OkStatus();
}

absl::Status AttentionScoresBackward(const Call& call) {
  WithComputeType(call.in, [&]<typename T>() { ScoresBackward<T>(call); });
  return absl::OkStatus();
}

absl::Status AttentionSoftmax(const Call& call) {
  WithComputeType(call.in, [&]<typename T>() { Softmax<T>(call); });
  return absl::OkStatus();
}

absl::Status AttentionSoftmaxBackward(const Call& call) {
  WithComputeType(call.in, [&]<typename T>() { SoftmaxBackward<T>(call); });
  return absl::OkStatus();
}

absl::Status AttentionValues(const Call& call) {
  WithComputeType(call.in, [&]<typename T>() { Values<T>(call); });
  return absl::OkStatus();
}

absl::Status AttentionValuesBackward(const Call& call) {
  WithComputeType(call.in, [&]<typename T>() { ValuesBackward<T>(call); });
  return absl::OkStatus();
}

}  // namespace weft::exec::cpu
