// Token and position embeddings.
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/embedding.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

// The device counts rows and tokens in 32 bits.
absl::Status CheckCounts(const Call& call, int64_t rows, int64_t table_rows) {
  constexpr int64_t kMost = int64_t{1} << 30;
  if (rows <= kMost && table_rows <= kMost) return absl::OkStatus();
  return call.Error(rows, " rows and a table of ", table_rows, "; at most 2^30 each");
}

absl::Status CheckMatrix(const Call& call, const TensorView& view, int64_t rows, int64_t columns) {
  if (Columns(view) == columns && Elements(view) == rows * columns) return absl::OkStatus();
  return call.Error("a tensor of ", Rows(view), " x ", Columns(view), " elements; it must be ", rows, " x ", columns);
}

absl::Status CheckSequence(const Call& call, int64_t table_rows) {
  const int64_t sequence = call.attributes().sequence();
  if (sequence >= 1 && sequence <= table_rows && call.context.row_shift >= 0) return absl::OkStatus();
  return call.Error("sequence is ", sequence, "; it must be from 1 to the table's ", table_rows, " rows");
}

}  // namespace

absl::Status EmbeddingStep(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 2, 1, 0b110, 0b1));
  Embedding e;
  e.tokens = static_cast<const int32_t*>(call.in[0].data);
  e.table = ArrayOf(call.in[1]);
  e.y = ArrayOf(call.out[0]);
  e.rows = Elements(call.in[0]);
  e.columns = Columns(call.in[1]);
  e.table_rows = Rows(call.in[1]);
  e.shift = call.context.column_shift;
  e.split = call.attributes().has_column_shift();
  e.in_double = ComputesInDouble(call.in);
  WEFT_RETURN_IF_ERROR(CheckMatrix(call, call.out[0], e.rows, e.columns));
  return call.Launch(e);
}

absl::Status EmbeddingBackwardStep(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 2, 1, 0b110, 0b1));
  EmbeddingBackward e;
  e.tokens = static_cast<const int32_t*>(call.in[0].data);
  e.dy = ArrayOf(call.in[1]);
  e.dtable = ArrayOf(call.out[0]);
  e.rows = Elements(call.in[0]);
  e.columns = Columns(call.in[1]);
  e.table_rows = Rows(call.out[0]);
  e.shift = call.context.column_shift;
  e.accumulate = call.step.accumulate();
  e.in_double = ComputesInDouble(call.in);
  WEFT_RETURN_IF_ERROR(CheckMatrix(call, call.in[1], e.rows, e.columns));
  WEFT_RETURN_IF_ERROR(CheckMatrix(call, call.out[0], e.table_rows, e.columns));
  WEFT_RETURN_IF_ERROR(CheckCounts(call, e.rows, e.table_rows));
  WEFT_ASSIGN_OR_RETURN(e.scratch, call.Scratch(e.ScratchBytes()));
  return call.Launch(e);
}

absl::Status PositionEmbeddingStep(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 1, 1, 0b11));
  WEFT_RETURN_IF_ERROR(CheckSequence(call, Rows(call.in[0])));
  PositionEmbedding e;
  e.table = ArrayOf(call.in[0]);
  e.y = ArrayOf(call.out[0]);
  e.rows = Rows(call.out[0]);
  e.columns = Columns(call.in[0]);
  e.sequence = call.attributes().sequence();
  e.shift = call.context.row_shift;
  e.in_double = ComputesInDouble(call.in);
  WEFT_RETURN_IF_ERROR(CheckMatrix(call, call.out[0], e.rows, e.columns));
  return call.Launch(e);
}

absl::Status PositionEmbeddingBackwardStep(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 1, 1, 0b11));
  WEFT_RETURN_IF_ERROR(CheckSequence(call, Rows(call.out[0])));
  PositionEmbeddingBackward e;
  e.dy = ArrayOf(call.in[0]);
  e.dtable = ArrayOf(call.out[0]);
  e.rows = Rows(call.in[0]);
  e.columns = Columns(call.in[0]);
  e.sequence = call.attributes().sequence();
  e.table_rows = Rows(call.out[0]);
  e.shift = call.context.row_shift;
  e.accumulate = call.step.accumulate();
  e.in_double = ComputesInDouble(call.in);
  WEFT_RETURN_IF_ERROR(CheckMatrix(call, call.out[0], e.table_rows, e.columns));
  return call.Launch(e);
}

}  // namespace weft::exec::cuda
