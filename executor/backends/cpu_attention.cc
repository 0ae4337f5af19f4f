// ATTENTION and ATTENTION_BACKWARD: one task per (sequence, head), queries in blocks.
//
// A block of queries has its scores in scratch memory, whole rows: softmax is exact, not online. With a causal mask a
// block multiplies only the keys up to its last query. The block size is a constant, so that sums over keys and queries
// run in the same order on any machine.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu_kernel.h"
#include "executor/backends/cpu_random.h"
#include "proto/status.h"

namespace weft::cpu {
namespace {

constexpr int64_t kQueries = 48;
static_assert(kQueries <= kRowBlock);

struct Geometry {
  int64_t sequence, heads, width, head_width, sequences;
  // Of qkv: elements between rows.
  int64_t stride() const { return 3 * width; }
};

Geometry GeometryOf(const Call& call, const TensorView& qkv) {
  Geometry g;
  g.sequence = call.attributes().sequence();
  g.heads = call.attributes().heads();
  g.width = Columns(qkv) / 3;
  g.head_width = g.width / g.heads;
  g.sequences = Rows(qkv) / g.sequence;
  return g;
}

absl::Status CheckGeometry(const Call& call, const TensorView& qkv) {
  const int64_t sequence = call.attributes().sequence(), heads = call.attributes().heads();
  if (sequence < 1 || heads < 1 || Columns(qkv) % (3 * heads) != 0 || Rows(qkv) % sequence != 0) {
    return absl::InvalidArgumentError(absl::StrCat("step '", call.step.name(), "': qkv of ", Rows(qkv), " x ",
                                                   Columns(qkv), " does not divide into sequences of ", sequence,
                                                   " and ", heads, " heads"));
  }
  return CheckDropout(call, std::max(heads, call.attributes().whole_columns()) * sequence * sequence);
}

// One (sequence, head): its blocks of qkv-like tensors, and products on them.
template <typename T>
class Head {
 public:
  Head(const Call& call, const Geometry& geometry, int64_t task)
      : call_(call),
        loops_(GetLoops<T>(call)),
        g_(geometry),
        sequence_(task / geometry.heads),
        head_(task % geometry.heads),
        words_(call, call.context.SampleOf(task / geometry.heads)) {}

  // Element (0, 0) of this head's part of a tensor [rows, parts * width]: part 0, 1, 2 of qkv is q, k, v.
  int64_t Offset(int64_t part, int64_t stride) const {
    return sequence_ * g_.sequence * stride + part * g_.width + head_ * g_.head_width;
  }
  Matrix Part(const TensorView& view, int64_t part, int64_t stride, int64_t row, bool transposed) const {
    return {At(view, Offset(part, stride) + row * stride), StorageOf(view), stride, transposed};
  }
  int64_t FirstRow() const { return sequence_ * g_.sequence; }
  int64_t head() const { return head_; }

  // c [rows, columns] (+)= a * panels, where the panels were packed with panel_k rows.
  void Multiply(const Matrix& a, int64_t rows, int64_t k, const T* panels, int64_t panel_k, int64_t columns, void* c,
                Storage storage, int64_t c_stride, bool accumulate, T* scratch) const {
    Product<T> product;
    product.a = a;
    product.k = k;
    product.panels = panels;
    product.panel_stride = panel_k * loops_.panel_width;
    product.columns = columns;
    product.accumulate = accumulate;
    product.c_storage = storage;
    product.c_stride = c_stride;
    const int64_t bytes = storage == Storage::kFp64 ? 8 : storage == Storage::kFp32 ? 4 : 2;
    for (int64_t row = 0; row < rows; row += kRowBlock) {
      product.first_row = row;
      product.rows = std::min(kRowBlock, rows - row);
      product.c = static_cast<char*>(c) + row * c_stride * bytes;
      loops_.multiply(product, scratch);
    }
  }

  // y = dropout(x) for the first n keys of a query.
  void Drop(int64_t query, const T* x, int64_t n, uint32_t* scratch, T* y) const {
    const double p = call_.attributes().dropout();
    // Of the heads of the whole, where they are split over ranks.
    const int64_t first = ((call_.context.column_shift + head_) * g_.sequence + query) * g_.sequence;
    loops_.mask(x, words_.Get(first, n, scratch), DropoutThreshold(p), static_cast<T>(1 / (1 - p)), n, y);
  }

 private:
  const Call& call_;
  const Loops<T>& loops_;
  const Geometry& g_;
  int64_t sequence_, head_;
  DropoutWords words_;
};

// Hands out consecutive pieces of a thread's scratch memory, each aligned to 64 bytes.
class Arena {
 public:
  template <typename T>
  static int64_t Bytes(int64_t elements) {
    return (elements * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
  }
  explicit Arena(void* memory) : next_(static_cast<char*>(memory)) {}
  template <typename T>
  T* Take(int64_t elements) {
    T* piece = reinterpret_cast<T*>(next_);
    next_ += Bytes<T>(elements);
    return piece;
  }

 private:
  char* next_;
};

template <typename T>
void Forward(const Call& call) {
  const TensorView &qkv = call.in[0], &o = call.out[0], &lse = call.out[1];
  const Geometry g = GeometryOf(call, qkv);
  const Loops<T>& loops = GetLoops<T>(call);
  const StepAttributes& attributes = call.attributes();
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
    const Head<T> head(call, g, task);
    loops.pack(head.Part(qkv, 1, g.stride(), 0, true), g.head_width, 0, g.sequence, keys);
    loops.pack(head.Part(qkv, 2, g.stride(), 0, false), g.sequence, 0, g.head_width, values);
    for (int64_t first = 0; first < g.sequence; first += kQueries) {
      const int64_t queries = std::min(kQueries, g.sequence - first);
      const int64_t reach = attributes.causal() ? first + queries : g.sequence;
      head.Multiply(head.Part(qkv, 0, g.stride(), first, false), queries, g.head_width, keys, g.head_width, reach,
                    scores, sizeof(T) == 8 ? Storage::kFp64 : Storage::kFp32, reach, false, scratch);
      for (int64_t i = 0; i < queries; ++i) {
        T* row = scores + i * reach;
        const int64_t visible = attributes.causal() ? first + i + 1 : reach;
        const T row_lse = loops.softmax(row, static_cast<T>(attributes.scale()), visible);
        loops.store(&row_lse, StorageOf(lse), 1, At(lse, (head.FirstRow() + first + i) * g.heads + head.head()));
        if (attributes.dropout() > 0) head.Drop(first + i, row, visible, words, row);
        std::fill(row + visible, row + reach, T(0));
      }
      const Matrix probabilities = {scores, sizeof(T) == 8 ? Storage::kFp64 : Storage::kFp32, reach, false};
      head.Multiply(probabilities, queries, reach, values, g.sequence, g.head_width,
                    At(o, head.Offset(0, g.width) + first * g.width), StorageOf(o), g.width, false, scratch);
    }
  });
}

// With p = softmax(scale * q k^T), r = dropout(p), o = r v:
//   dv = r^T do,  dr = do v^T,  dp = dropout(dr),  ds = p * (dp - sum(do * o)) * scale,  dq = ds k,  dk = ds^T q.
template <typename T>
void Backward(const Call& call) {
  const TensorView &d_o = call.in[0], &qkv = call.in[1], &o = call.in[2], &lse = call.in[3], &dqkv = call.out[0];
  const Geometry g = GeometryOf(call, qkv);
  const Loops<T>& loops = GetLoops<T>(call);
  const StepAttributes& attributes = call.attributes();
  const bool drops = attributes.dropout() > 0;
  const T scale = static_cast<T>(attributes.scale());
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
  call.pool().Run(g.sequences * g.heads, [&](int64_t task, int thread) {
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
    const Head<T> head(call, g, task);
    loops.pack(head.Part(qkv, 1, g.stride(), 0, true), g.head_width, 0, g.sequence, keys_transposed);
    loops.pack(head.Part(qkv, 2, g.stride(), 0, true), g.head_width, 0, g.sequence, values_transposed);
    loops.pack(head.Part(qkv, 1, g.stride(), 0, false), g.sequence, 0, g.head_width, keys);
    std::fill(dk, dk + sums, T(0));
    std::fill(dv, dv + sums, T(0));
    for (int64_t first = 0; first < g.sequence; first += kQueries) {
      const int64_t queries = std::min(kQueries, g.sequence - first);
      const int64_t reach = attributes.causal() ? first + queries : g.sequence;
      const Matrix q = head.Part(qkv, 0, g.stride(), first, false);
      const Matrix d_out = head.Part(d_o, 0, g.width, first, false);
      head.Multiply(q, queries, g.head_width, keys_transposed, g.head_width, reach, p, stored_t, reach, false, scratch);
      head.Multiply(d_out, queries, g.head_width, values_transposed, g.head_width, reach, dp, stored_t, reach, false,
                    scratch);
      for (int64_t i = 0; i < queries; ++i) {
        const int64_t visible = attributes.causal() ? first + i + 1 : reach;
        const int64_t at = head.Offset(0, g.width) + (first + i) * g.width;
        const T shift =
            loops.dot(Read(call, d_o, at, g.head_width, row_do), Read(call, o, at, g.head_width, row_o), g.head_width);
        T row_lse;
        loops.load(At(lse, (head.FirstRow() + first + i) * g.heads + head.head()), StorageOf(lse), 1, &row_lse);
        T *row_p = p + i * reach, *row_r = r + i * reach, *row_dp = dp + i * reach;
        loops.exp(row_p, scale, row_lse, T(1), visible, row_p);
        if (drops) {
          head.Drop(first + i, row_p, visible, words, row_r);
          head.Drop(first + i, row_dp, visible, words, row_dp);
        }
        loops.softmax_backward(row_p, shift, scale, visible, row_dp);
        std::fill(row_r + visible, row_r + reach, T(0));
        std::fill(row_dp + visible, row_dp + reach, T(0));
      }
      const Matrix ds = {dp, stored_t, reach, false};
      head.Multiply(ds, queries, reach, keys, g.sequence, g.head_width,
                    At(dqkv, head.Offset(0, g.stride()) + first * g.stride()), StorageOf(dqkv), g.stride(), false,
                    scratch);
      loops.pack(q, queries, 0, g.head_width, block);
      head.Multiply({dp, stored_t, reach, true}, reach, queries, block, queries, g.head_width, dk, stored_t,
                    g.head_width, true, scratch);
      loops.pack(d_out, queries, 0, g.head_width, block);
      head.Multiply({r, stored_t, reach, true}, reach, queries, block, queries, g.head_width, dv, stored_t,
                    g.head_width, true, scratch);
    }
    for (int64_t i = 0; i < g.sequence; ++i) {
      const int64_t at = i * g.stride();
      loops.store(dk + i * g.head_width, StorageOf(dqkv), g.head_width, At(dqkv, head.Offset(1, g.stride()) + at));
      loops.store(dv + i * g.head_width, StorageOf(dqkv), g.head_width, At(dqkv, head.Offset(2, g.stride()) + at));
    }
  });
}

}  // namespace

absl::Status Attention(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 1, 2, 0b111));
  WEFT_RETURN_IF_ERROR(CheckGeometry(call, call.in[0]));
  WithComputeType(call.in, [&]<typename T>() { Forward<T>(call); });
  return absl::OkStatus();
}

absl::Status AttentionBackward(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 4, 1, 0b11111));
  WEFT_RETURN_IF_ERROR(CheckGeometry(call, call.in[1]));
  WithComputeType(call.in, [&]<typename T>() { Backward<T>(call); });
  return absl::OkStatus();
}

}  // namespace weft::cpu
