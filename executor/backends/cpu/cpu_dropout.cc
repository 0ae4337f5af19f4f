// DROPOUT, and its variants that write or read a mask.
#include "executor/backends/cpu/cpu_kernel.h"
#include "executor/backends/cpu/cpu_random.h"
#include "proto/util/status.h"

namespace weft::exec::cpu {
namespace {

// Maps elements of this rank's part of a tensor to their indices in the whole sample. The random counters use these
// indices (docs/kernels.md).
class Counted {
 public:
  explicit Counted(const Call& call)
      : heads_(call.attributes().heads()),
        columns_(Columns(call.in[0])),
        whole_(std::max(heads_ > 0 ? heads_ : columns_, call.attributes().whole_columns())),
        sequence_(RowsOfSample(call.step, call.in[0], call.context)),
        column_shift_(call.context.column_shift),
        begin_(call.context.row_shift * columns_),
        // Length of a run of elements that are adjacent in the whole sample too. With heads, a run is the scores of one
        // query in one head. Without, it is a whole sample, or one row if ranks split the columns.
        run_(heads_ > 0           ? sequence_
             : columns_ == whole_ ? sequence_ * columns_
                                  : columns_) {}

  // Returns how many of the n elements from `first` on are adjacent in the whole sample too.
  int64_t Run(int64_t first, int64_t n) const { return std::min(n, run_ - (begin_ + first) % run_); }
  // Sample() returns the sample of the microbatch that holds an element, Logical() the element's index in that sample.
  int64_t Sample(int64_t first) const { return (begin_ + first) / columns_ / sequence_; }
  int64_t Logical(int64_t first) const {
    const int64_t row = (begin_ + first) / columns_ % sequence_, column = (begin_ + first) % columns_;
    if (heads_ == 0) return row * whole_ + column_shift_ + column;
    return ((column_shift_ + column / sequence_) * sequence_ + row) * sequence_ + column % sequence_;
  }

 private:
  int64_t heads_, columns_, whole_, sequence_, column_shift_, begin_, run_;
};

// Applies dropout to input 0. If `mask` is not null, also stores 1 there for each kept element and 0 for each dropped
// one.
absl::Status Drop(const Call& call, const TensorView* mask) {
  const double p = call.attributes().dropout();
  const TensorView &input = call.in[0], &output = call.out[0];
  const Counted elements(call);
  WEFT_RETURN_IF_ERROR(CheckDropout(call.step, call.in[0], call.context));
  const uint32_t threshold = DropoutThreshold(p);
  WithComputeType(call.in, [&]<typename T>() {
    const T factor = static_cast<T>(1 / (1 - p));
    ForChunks(call, Rows(input) * Columns(input), [&](int64_t begin, int64_t chunk) {
      // A chunk may hold parts of several runs.
      for (int64_t first = begin; first < begin + chunk;) {
        const int64_t count = elements.Run(first, begin + chunk - first);
        T buffer[2][kChunk];
        uint32_t scratch[kChunk + 8];
        const uint32_t* words = DropoutWords(call, call.context.SampleOf(elements.Sample(first)))
                                    .Get(elements.Logical(first), count, scratch);
        const T* x = Read(call, input, first, count, buffer[0]);
        T* y = Target(output, first, false, buffer[1]);
        GetLoops<T>(call).mask(x, words, threshold, factor, count, y);
        Write(call, output, first, count, false, y);
        if (mask != nullptr) {
          uint8_t* kept = reinterpret_cast<uint8_t*>(At(*mask, first));
          for (int64_t i = 0; i < count; ++i) kept[i] = words[i] >= threshold ? 1 : 0;
        }
        first += count;
      }
    });
  });
  return absl::OkStatus();
}

}  // namespace

absl::Status Dropout(const Call& call) { return Drop(call, nullptr); }

absl::Status DropoutMask(const Call& call) { return Drop(call, &call.out[1]); }

absl::Status DropoutByMask(const Call& call) {
  const TensorView &input = call.in[0], &mask = call.in[1], &output = call.out[0];
  WithComputeType(call.in, [&]<typename T>() {
    const T factor = static_cast<T>(1 / (1 - call.attributes().dropout()));
    ForChunks(call, Rows(input) * Columns(input), [&](int64_t first, int64_t count) {
      T buffer[2][kChunk];
      uint32_t words[kChunk];
      const uint8_t* kept = reinterpret_cast<const uint8_t*>(At(mask, first));
      for (int64_t i = 0; i < count; ++i) words[i] = kept[i];
      const T* x = Read(call, input, first, count, buffer[0]);
      T* y = Target(output, first, false, buffer[1]);
      GetLoops<T>(call).mask(x, words, 1, factor, count, y);
      Write(call, output, first, count, false, y);
    });
  });
  return absl::OkStatus();
}

}  // namespace weft::exec::cpu
