// DROPOUT.
#include "executor/backends/cpu_kernel.h"
#include "executor/backends/cpu_random.h"
#include "proto/status.h"

namespace weft::cpu {

absl::Status Dropout(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 1, 1, 0b11));
  const double p = call.attributes().dropout();
  const TensorView &input = call.in[0], &output = call.out[0];
  // Of the part that the rank has; of the whole the counters count (rule P8).
  const int64_t columns = Columns(input), rows = Rows(input);
  const int64_t whole_columns = std::max(columns, call.attributes().whole_columns());
  const int64_t sequence =
      call.attributes().sequence() > 0 ? call.attributes().sequence() : rows / call.context.microbatch_sequences;
  WEFT_RETURN_IF_ERROR(CheckDropout(call, sequence * whole_columns));
  // Elements that follow one another in the whole too.
  const int64_t run = columns == whole_columns ? sequence * columns : columns;
  const int64_t begin_of_rows = call.context.row_shift * columns;
  WithComputeType(call.in, [&]<typename T>() {
    const T factor = static_cast<T>(1 / (1 - p));
    ForChunks(call, rows * columns, [&](int64_t begin, int64_t chunk) {
      // A chunk may hold parts of several runs.
      for (int64_t first = begin; first < begin + chunk;) {
        const int64_t element = begin_of_rows + first;
        const int64_t count = std::min(begin + chunk - first, run - element % run);
        const int64_t row = element / columns;
        const int64_t logical = row % sequence * whole_columns + call.context.column_shift + element % columns;
        T buffer[2][kChunk];
        uint32_t scratch[kChunk + 8];
        const uint32_t* words =
            DropoutWords(call, call.context.SampleOf(row / sequence)).Get(logical, count, scratch);
        const T* x = Read(call, input, first, count, buffer[0]);
        T* y = Target(output, first, false, buffer[1]);
        GetLoops<T>(call).mask(x, words, DropoutThreshold(p), factor, count, y);
        Write(call, output, first, count, false, y);
        first += count;
      }
    });
  });
  return absl::OkStatus();
}

}  // namespace weft::cpu
