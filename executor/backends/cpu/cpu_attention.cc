// ATTENTION runs one task per (sequence, head), ATTENTION_BACKWARD one per (sequence, head of k and v). Both take the
// queries in blocks.
//
// The scores of a block of queries are whole rows in scratch memory, so softmax is exact, not online. With a causal
// mask a block multiplies only the keys up to its last query. The block size is a constant, so sums over keys and
// queries run in the same order on any machine.
#include <cmath>

#include "executor/backends/cpu/cpu_heads.h"
#include "proto/util/status.h"

namespace weft::exec::cpu {
namespace {

// `row` has one element per key of the query's block (`reach` keys). Sets the elements of keys that the query does not
// see to zero.
template <typename T>
void FillHidden(const Geometry& g, int64_t query, int64_t reach, T* row) {
  std::fill(row, row + g.FirstKey(query), T(0));
  std::fill(row + g.Visible(query), row + reach, T(0));
}

template <typename T>
void Forward(const Call& call) {
  const Parts in(call, call.in);
  const Geometry g(call, call.in);
  const Part out{call.out[0], 0, g.head_width};
  const TensorView& lse = call.out[1];
  const Loops<T>& loops = GetLoops<T>(call);
  const T scale = static_cast<T>(call.attributes().scale());
  const Storage stored_t = sizeof(T) == 8 ? Storage::kFp64 : Storage::kFp32;
  const int64_t key_panels = PanelElements(g.head_width, g.sequence);
  const int64_t value_panels = PanelElements(g.sequence, g.head_width);
  const int64_t products =
      std::max(MultiplyScratch(g.head_width, g.sequence), MultiplyScratch(g.sequence, g.head_width));
  const int64_t bytes = Arena::Bytes<T>(key_panels) + Arena::Bytes<T>(value_panels) + Arena::Bytes<T>(products) +
                        Arena::Bytes<T>(kQueries * g.sequence) +
                        Arena::Bytes<uint32_t>(DropoutWords::Scratch(g.sequence));
  call.pool().Run(g.sequences * g.heads, [&](int64_t task, int thread) {
    Arena arena(call.workspace.thread[thread].Get(bytes));
    T* keys = arena.Take<T>(key_panels);
    T* values = arena.Take<T>(value_panels);
    T* scratch = arena.Take<T>(products);
    T* scores = arena.Take<T>(kQueries * g.sequence);
    uint32_t* words = arena.Take<uint32_t>(DropoutWords::Scratch(g.sequence));
    const Head<T> head(call, g, task / g.heads, task % g.heads);
    loops.pack(Head<T>::At(in.k(), head.Key(in.k(), 0), true), g.head_width, 0, g.sequence, keys);
    loops.pack(Head<T>::At(in.v(), head.Key(in.v(), 0), false), g.sequence, 0, g.head_width, values);
    for (int64_t first = 0; first < g.sequence; first += kQueries) {
      const int64_t queries = std::min(kQueries, g.sequence - first);
      const int64_t reach = g.Reach(first, queries);
      head.Multiply(Head<T>::At(in.q(), head.Query(in.q(), first), false), queries, g.head_width, keys, g.head_width,
                    reach, scores, stored_t, reach, false, scratch);
      for (int64_t i = 0; i < queries; ++i) {
        const int64_t query = first + i, from = g.FirstKey(query), count = g.Visible(query) - from;
        T* row = scores + i * reach;
        const T row_lse = loops.softmax(row + from, scale, count);
        loops.store(&row_lse, StorageOf(lse), 1, At(lse, head.StatisticsElement(query)));
        if (call.attributes().dropout() > 0) head.Drop(query, from, row + from, count, words, row + from);
        FillHidden(g, query, reach, row);
      }
      const Matrix probabilities = {scores, stored_t, reach, false};
      head.Multiply(probabilities, queries, reach, values, g.sequence, g.head_width,
                    At(out.view, head.Query(out, first)), StorageOf(out.view), out.stride(), false, scratch);
    }
  });
}

// With p = softmax(scale * q k^T), r = dropout(p), o = r v:
//   dv = r^T do,  dr = do v^T,  dp = dropout(dr),  ds = p * (dp - sum(do * o)) * scale,  dq = ds k,  dk = ds^T q,
// where dk and dv are sums over the heads of q that share them, in ascending order.
template <typename T>
void Backward(const Call& call) {
  const auto views = call.in.subspan(1, call.in.size() - 3);
  const Parts in(call, views), gradients(call, call.out);
  const Geometry g(call, views);
  const Part d_o{call.in[0], 0, g.head_width}, o{call.in[call.in.size() - 2], 0, g.head_width};
  const TensorView& lse = call.in[call.in.size() - 1];
  const Loops<T>& loops = GetLoops<T>(call);
  const bool drops = call.attributes().dropout() > 0;
  const T scale = static_cast<T>(call.attributes().scale());
  const Storage stored_t = sizeof(T) == 8 ? Storage::kFp64 : Storage::kFp32;
  const int64_t by_width = PanelElements(g.head_width, g.sequence);
  const int64_t by_sequence = PanelElements(g.sequence, g.head_width);
  const int64_t block_panels = PanelElements(kQueries, g.head_width);
  const int64_t products =
      std::max(MultiplyScratch(g.head_width, g.sequence),
               std::max(MultiplyScratch(g.sequence, g.head_width), MultiplyScratch(kQueries, g.head_width)));
  const int64_t tile = kQueries * g.sequence;
  const int64_t sums = g.sequence * g.head_width;
  const int64_t bytes = 2 * Arena::Bytes<T>(by_width) + Arena::Bytes<T>(by_sequence) + Arena::Bytes<T>(block_panels) +
                        Arena::Bytes<T>(products) + 3 * Arena::Bytes<T>(tile) + 2 * Arena::Bytes<T>(sums) +
                        2 * Arena::Bytes<T>(g.head_width) + Arena::Bytes<uint32_t>(DropoutWords::Scratch(g.sequence));
  call.pool().Run(g.sequences * g.kv_heads, [&](int64_t task, int thread) {
    Arena arena(call.workspace.thread[thread].Get(bytes));
    T* keys_transposed = arena.Take<T>(by_width);
    T* values_transposed = arena.Take<T>(by_width);
    T* keys = arena.Take<T>(by_sequence);
    T* block = arena.Take<T>(block_panels);
    T* scratch = arena.Take<T>(products);
    T* p = arena.Take<T>(tile);
    T* r = drops ? arena.Take<T>(tile) : p;
    T* dp = arena.Take<T>(tile);
    T* dk = arena.Take<T>(sums);
    T* dv = arena.Take<T>(sums);
    T* row_do = arena.Take<T>(g.head_width);
    T* row_o = arena.Take<T>(g.head_width);
    uint32_t* words = arena.Take<uint32_t>(DropoutWords::Scratch(g.sequence));
    const int64_t sequence = task / g.kv_heads, first_head = task % g.kv_heads * g.group();
    const Head<T> shared(call, g, sequence, first_head);
    loops.pack(Head<T>::At(in.k(), shared.Key(in.k(), 0), true), g.head_width, 0, g.sequence, keys_transposed);
    loops.pack(Head<T>::At(in.v(), shared.Key(in.v(), 0), true), g.head_width, 0, g.sequence, values_transposed);
    loops.pack(Head<T>::At(in.k(), shared.Key(in.k(), 0), false), g.sequence, 0, g.head_width, keys);
    std::fill(dk, dk + sums, T(0));
    std::fill(dv, dv + sums, T(0));
    // Computes dq for one block of one head's queries and adds the block's share to dk and dv.
    const auto add_queries = [&](const Head<T>& head, int64_t first) {
      const int64_t queries = std::min(kQueries, g.sequence - first);
      const int64_t reach = g.Reach(first, queries);
      const Matrix q = Head<T>::At(in.q(), head.Query(in.q(), first), false);
      const Matrix d_out = Head<T>::At(d_o, head.Query(d_o, first), false);
      head.Multiply(q, queries, g.head_width, keys_transposed, g.head_width, reach, p, stored_t, reach, false, scratch);
      head.Multiply(d_out, queries, g.head_width, values_transposed, g.head_width, reach, dp, stored_t, reach, false,
                    scratch);
      for (int64_t i = 0; i < queries; ++i) {
        const int64_t query = first + i, from = g.FirstKey(query), count = g.Visible(query) - from;
        const T shift = loops.dot(Read(call, d_o.view, head.Query(d_o, query), g.head_width, row_do),
                                  Read(call, o.view, head.Query(o, query), g.head_width, row_o), g.head_width);
        T row_lse;
        loops.load(At(lse, head.StatisticsElement(query)), StorageOf(lse), 1, &row_lse);
        T *row_p = p + i * reach, *row_r = r + i * reach, *row_dp = dp + i * reach;
        loops.exp(row_p + from, scale, row_lse, T(1), count, row_p + from);
        if (drops) {
          head.Drop(query, from, row_p + from, count, words, row_r + from);
          head.Drop(query, from, row_dp + from, count, words, row_dp + from);
        }
        loops.softmax_backward(row_p + from, shift, scale, count, row_dp + from);
        FillHidden(g, query, reach, row_r);
        FillHidden(g, query, reach, row_dp);
      }
      const Part& dq = gradients.q();
      const Matrix ds = {dp, stored_t, reach, false};
      head.Multiply(ds, queries, reach, keys, g.sequence, g.head_width, At(dq.view, head.Query(dq, first)),
                    StorageOf(dq.view), dq.stride(), false, scratch);
      loops.pack(q, queries, 0, g.head_width, block);
      head.Multiply({dp, stored_t, reach, true}, reach, queries, block, queries, g.head_width, dk, stored_t,
                    g.head_width, true, scratch);
      loops.pack(d_out, queries, 0, g.head_width, block);
      head.Multiply({r, stored_t, reach, true}, reach, queries, block, queries, g.head_width, dv, stored_t,
                    g.head_width, true, scratch);
    };
    for (int64_t h = first_head; h < first_head + g.group(); ++h) {
      const Head<T> head(call, g, sequence, h);
      for (int64_t first = 0; first < g.sequence; first += kQueries) add_queries(head, first);
    }
    for (int64_t i = 0; i < g.sequence; ++i) {
      const Part &to_k = gradients.k(), &to_v = gradients.v();
      loops.store(dk + i * g.head_width, StorageOf(to_k.view), g.head_width, At(to_k.view, shared.Key(to_k, i)));
      loops.store(dv + i * g.head_width, StorageOf(to_v.view), g.head_width, At(to_v.view, shared.Key(to_v, i)));
    }
  });
}

}  // namespace

absl::Status Attention(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckDropout(call.step, call.in[0], call.context));
  WithComputeType(call.in, [&]<typename T>() { Forward<T>(call); });
  return absl::OkStatus();
}

absl::Status AttentionBackward(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckDropout(call.step, call.in[0], call.context));
  WithComputeType(call.in, [&]<typename T>() { Backward<T>(call); });
  return absl::OkStatus();
}

}  // namespace weft::exec::cpu
