// Blocks of q, k and v and products on them, head by head: code shared by the attention kernels. Internal to the CPU
// backend.
#ifndef WEFT_EXECUTOR_BACKENDS_CPU_CPU_HEADS_H_
#define WEFT_EXECUTOR_BACKENDS_CPU_CPU_HEADS_H_

#include <algorithm>
#include <cstdint>

#include "executor/backends/cpu/cpu_kernel.h"
#include "executor/backends/cpu/cpu_random.h"

namespace weft::exec::cpu {

// Queries per block: the same on every machine, so that sums over queries run in the same order.
inline constexpr int64_t kQueries = 48;
static_assert(kQueries <= kRowBlock);

// q, k, v or the gradient of one of them: a whole tensor, or some columns of one.
struct Part {
  TensorView view;
  int64_t first_column = 0;
  // Columns from one head to the next.
  int64_t head_step = 0;

  int64_t stride() const { return Columns(view); }
};

// Returns q (index 0), k (1) or v (2) of a tensor that holds all three side by side.
inline Part PartOfQkv(const Call& call, const TensorView& qkv, int index) {
  const int64_t width = Columns(qkv) / 3, head_width = width / call.attributes().heads();
  if (call.attributes().qkv_by_head()) return {qkv, index * head_width, 3 * head_width};
  return {qkv, index * width, head_width};
}

// q, k and v in `views`: one tensor that holds all three side by side, or one tensor each.
struct Parts {
  Parts(const Call& call, absl::Span<const TensorView> views) {
    for (int i = 0; i < 3; ++i) {
      part[i] = views.size() == 3 ? Part{views[i], 0, Columns(views[0]) / call.attributes().heads()}
                                  : PartOfQkv(call, views[0], i);
    }
  }
  const Part& q() const { return part[0]; }
  const Part& k() const { return part[1]; }
  const Part& v() const { return part[2]; }

  Part part[3];
};

struct Geometry {
  Geometry(const Call& call, absl::Span<const TensorView> views)
      : Geometry(call, Rows(views[0]), Columns(views[0]) / (views.size() == 3 ? 1 : 3), views.size() == 3) {}
  // `width` is the number of columns of q. `grouped` is true if k and v are separate tensors.
  Geometry(const Call& call, int64_t rows, int64_t width, bool grouped)
      : sequence(call.attributes().sequence()),
        heads(call.attributes().heads()),
        kv_heads(grouped ? call.attributes().kv_heads() : heads),
        width(width),
        head_width(width / heads),
        sequences(rows / sequence),
        causal(call.attributes().causal()),
        window(call.attributes().window() > 0 ? call.attributes().window() : sequence) {}

  // Heads of q that share one head of k and v.
  int64_t group() const { return heads / kv_heads; }
  // A block of queries multiplies keys [0, Reach). One query sees keys [FirstKey, Visible).
  int64_t Reach(int64_t first, int64_t queries) const { return causal ? first + queries : sequence; }
  int64_t FirstKey(int64_t query) const { return causal ? std::max<int64_t>(0, query + 1 - window) : 0; }
  int64_t Visible(int64_t query) const { return causal ? query + 1 : sequence; }

  int64_t sequence, heads, kv_heads, width, head_width, sequences;
  bool causal;
  int64_t window;
};

// One head of one sequence: its blocks of tensors, and products on them.
template <typename T>
class Head {
 public:
  Head(const Call& call, const Geometry& geometry, int64_t sequence, int64_t head)
      : call_(call),
        loops_(GetLoops<T>(call)),
        g_(geometry),
        sequence_(sequence),
        head_(head),
        words_(call, call.context.SampleOf(sequence)) {}

  // Query and Key return the index in `part` of the first element of a row: Query for this head of q or of a tensor
  // laid out like q, Key for the head of k or v that this head of q uses.
  int64_t Query(const Part& part, int64_t row) const { return Element(part, row, head_); }
  int64_t Key(const Part& part, int64_t row) const { return Element(part, row, head_ / g_.group()); }

  static Matrix At(const Part& part, int64_t element, bool transposed) {
    return {cpu::At(part.view, element), StorageOf(part.view), part.stride(), transposed};
  }
  // Index of a row's log-sum-exp. Statistics are stored head by head in each sequence (docs/kernels.md).
  int64_t StatisticsElement(int64_t row) const { return (sequence_ * g_.heads + head_) * g_.sequence + row; }

  // c [rows, columns] (+)= a * panels. The panels were packed with panel_k rows.
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

  // y = dropout(x) for one query and the n keys from `key` on.
  void Drop(int64_t query, int64_t key, const T* x, int64_t n, uint32_t* scratch, T* y) const {
    const double p = call_.attributes().dropout();
    // The random counters use the head's number among the heads of all ranks.
    const int64_t first = ((call_.context.column_shift + head_) * g_.sequence + query) * g_.sequence + key;
    loops_.mask(x, words_.Get(first, n, scratch), DropoutThreshold(p), static_cast<T>(1 / (1 - p)), n, y);
  }

 private:
  int64_t Element(const Part& part, int64_t row, int64_t head) const {
    return (sequence_ * g_.sequence + row) * part.stride() + part.first_column + head * part.head_step;
  }

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

}  // namespace weft::exec::cpu

#endif  // WEFT_EXECUTOR_BACKENDS_CPU_CPU_HEADS_H_
