#include "executor/backends/cuda/kernels/dropout.h"
#include "executor/backends/cuda/kernels/dropout_words.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

template <typename C, Type S>
struct Drop {
  static constexpr int kMaxThreads = kThreads;
  Dropout a;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t first = (thread.block() * thread.count() + thread.index()) * kBlock;
    const int64_t elements = a.rows * a.columns;
    if (first >= elements) return;
    const int64_t count = Least<int64_t>(kBlock, elements - first);
    const C factor = static_cast<C>(a.key.factor);
    C x[kBlock];
    LoadSome<C, S>(a.x, first, count, true, x);
    DropoutWords words(a.key);
    // Elements of a run follow one another in the whole too: within a row, and with heads within one head's scores.
    const int64_t length = a.heads > 0 ? a.sequence : a.columns;
    int64_t run_left = 0, logical = 0;
    uint64_t sample = 0;
#pragma unroll
    for (int i = 0; i < kBlock; ++i) {
      if (i < count) {
        if (run_left == 0) {
          const int64_t of_row = Divide(first + i, a.columns), column = first + i - of_row * a.columns;
          const int64_t row_of_all = a.row_shift + of_row;
          const int64_t sequence_number = Divide(row_of_all, a.sequence);
          const int64_t row = row_of_all - sequence_number * a.sequence;
          sample = SampleOf(a.samples, sequence_number);
          if (a.heads > 0) {
            const int64_t head = Divide(column, a.sequence), key = column - head * a.sequence;
            logical = ((a.column_shift + head) * a.sequence + row) * a.sequence + key;
            run_left = length - key;
          } else {
            logical = row * a.whole + a.column_shift + column;
            run_left = length - column;
          }
        }
        const bool kept = words.Kept(sample, logical);
        x[i] = kept ? x[i] * factor : C(0);
        if (a.mask != nullptr) a.mask[first + i] = kept ? 1 : 0;
        ++logical;
        --run_left;
      }
    }
    StoreSome<C, S>(a.y, first, count, true, x);
  }
};

template <typename C, Type S>
struct ByMask {
  static constexpr int kMaxThreads = kThreads;
  DropoutByMask a;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t first = (thread.block() * thread.count() + thread.index()) * kBlock;
    if (first >= a.elements) return;
    const int64_t count = a.elements - first;
    const C factor = static_cast<C>(a.factor);
    C x[kBlock];
    LoadSome<C, S>(a.x, first, count, true, x);
#pragma unroll
    for (int i = 0; i < kBlock; ++i) x[i] = i < count && a.mask[first + i] != 0 ? x[i] * factor : C(0);
    StoreSome<C, S>(a.y, first, count, true, x);
  }
};

}  // namespace

Outcome Launch(const Dropout& dropout, void* stream) {
  const int64_t blocks = CeilDivide(CeilDivide(dropout.rows * dropout.columns, kBlock), kThreads);
  return WithTypes(dropout.in_double, {dropout.x, dropout.y}, [&]<typename C, Type S>() {
    return LaunchKernel(Drop<C, S>{dropout}, blocks, kThreads, 0, stream);
  });
}

Outcome Launch(const DropoutByMask& dropout, void* stream) {
  const int64_t blocks = CeilDivide(CeilDivide(dropout.elements, kBlock), kThreads);
  return WithTypes(dropout.in_double, {dropout.x, dropout.y}, [&]<typename C, Type S>() {
    return LaunchKernel(ByMask<C, S>{dropout}, blocks, kThreads, 0, stream);
  });
}

}  // namespace weft::cuda
