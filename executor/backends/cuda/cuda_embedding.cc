// Token and position embeddings.
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/embedding.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

// Returns an error if there are too many rows: the kernels count rows and tokens in 32 bits.
absl::Status CheckCounts(const Call& call, int64_t rows, int64_t table_rows) {
  constexpr int64_t kMax = int64_t{1} << 30;
  if (rows <= kMax && table_rows <= kMax) return absl::OkStatus();
  return call.Error(rows, " rows and a table of ", table_rows, "; allowed: at most 2^30 each");
}

}  // namespace

absl::Status EmbeddingStep(const Call& call) {
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
  return call.Launch(e);
}

absl::Status EmbeddingBackwardStep(const Call& call) {
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
  WEFT_RETURN_IF_ERROR(CheckCounts(call, e.rows, e.table_rows));
  WEFT_ASSIGN_OR_RETURN(e.scratch, call.Scratch(e.ScratchBytes()));
  return call.Launch(e);
}

absl::Status PositionEmbeddingStep(const Call& call) {
  PositionEmbedding e;
  e.table = ArrayOf(call.in[0]);
  e.y = ArrayOf(call.out[0]);
  e.rows = Rows(call.out[0]);
  e.columns = Columns(call.in[0]);
  e.sequence = call.attributes().sequence();
  e.shift = call.context.row_shift;
  e.in_double = ComputesInDouble(call.in);
  return call.Launch(e);
}

absl::Status PositionEmbeddingBackwardStep(const Call& call) {
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
  return call.Launch(e);
}

}  // namespace weft::exec::cuda
