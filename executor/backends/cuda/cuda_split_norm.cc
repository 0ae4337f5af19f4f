// Norms of rows whose columns are split over ranks.
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/split_norm.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

absl::Status CheckParts(const Call& call, const TensorView& parts, int64_t rows, int64_t columns) {
  if (Columns(parts) == columns && rows > 0 && Rows(parts) % rows == 0) return absl::OkStatus();
  return call.Error("statistics of ", Rows(parts), " x ", Columns(parts), " elements are not some of ", rows, " x ",
                    columns);
}

absl::Status CheckWholeColumns(const Call& call) {
  if (call.attributes().whole_columns() > 0) return absl::OkStatus();
  return call.Error("whole_columns is ", call.attributes().whole_columns());
}

}  // namespace

absl::Status NormPartialStep(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 1, 1, 0b11));
  NormPartial norm;
  norm.x = ArrayOf(call.in[0]);
  norm.partial = ArrayOf(call.out[0]);
  norm.rows = Rows(call.in[0]);
  norm.columns = Columns(call.in[0]);
  norm.squares_only = call.attributes().root_mean_square();
  norm.in_double = ComputesInDouble(call.in);
  WEFT_RETURN_IF_ERROR(CheckParts(call, call.out[0], norm.rows, norm.squares_only ? 1 : 2));
  return call.Launch(norm);
}

absl::Status NormCombineStep(const Call& call) {
  const bool squares_only = call.attributes().root_mean_square();
  WEFT_RETURN_IF_ERROR(squares_only ? CheckTensors(call, 1, 1, 0b11) : CheckTensors(call, 1, 2, 0b111));
  WEFT_RETURN_IF_ERROR(CheckWholeColumns(call));
  NormCombine norm;
  norm.partials = ArrayOf(call.in[0]);
  if (!squares_only) norm.mean = ArrayOf(call.out[0]);
  norm.rstd = ArrayOf(call.out[squares_only ? 0 : 1]);
  norm.rows = Elements(call.out[squares_only ? 0 : 1]);
  WEFT_RETURN_IF_ERROR(CheckParts(call, call.in[0], norm.rows, squares_only ? 1 : 2));
  norm.parts = Rows(call.in[0]) / norm.rows;
  norm.whole_columns = call.attributes().whole_columns();
  norm.epsilon = call.attributes().epsilon();
  norm.in_double = ComputesInDouble(call.in);
  return call.Launch(norm);
}

absl::Status NormApplyStep(const Call& call) {
  const bool squares_only = call.attributes().root_mean_square();
  WEFT_RETURN_IF_ERROR(squares_only ? CheckTensors(call, 3, 1, 0b1111) : CheckTensors(call, 5, 1, 0b111111));
  NormApply norm;
  norm.x = ArrayOf(call.in[0]);
  norm.gamma = ArrayOf(call.in[1]);
  if (!squares_only) {
    norm.beta = ArrayOf(call.in[2]);
    norm.mean = ArrayOf(call.in[3]);
  }
  norm.rstd = ArrayOf(call.in[squares_only ? 2 : 4]);
  norm.y = ArrayOf(call.out[0]);
  norm.rows = Rows(call.in[0]);
  norm.columns = Columns(call.in[0]);
  norm.in_double = ComputesInDouble(call.in);
  return call.Launch(norm);
}

absl::Status NormBackwardPartialStep(const Call& call) {
  const bool squares_only = call.attributes().root_mean_square();
  WEFT_RETURN_IF_ERROR(squares_only ? CheckTensors(call, 4, 1, 0b11111) : CheckTensors(call, 5, 1, 0b111111));
  NormBackwardPartial norm;
  norm.dy = ArrayOf(call.in[0]);
  norm.x = ArrayOf(call.in[1]);
  norm.gamma = ArrayOf(call.in[2]);
  if (!squares_only) norm.mean = ArrayOf(call.in[3]);
  norm.rstd = ArrayOf(call.in[squares_only ? 3 : 4]);
  norm.sums = ArrayOf(call.out[0]);
  norm.rows = Rows(call.in[0]);
  norm.columns = Columns(call.in[0]);
  norm.in_double = ComputesInDouble(call.in);
  WEFT_RETURN_IF_ERROR(CheckParts(call, call.out[0], norm.rows, squares_only ? 1 : 2));
  return call.Launch(norm);
}

absl::Status NormBackwardApplyStep(const Call& call) {
  const bool squares_only = call.attributes().root_mean_square();
  WEFT_RETURN_IF_ERROR(squares_only ? CheckTensors(call, 5, 1, 0b111111) : CheckTensors(call, 6, 1, 0b1111111));
  WEFT_RETURN_IF_ERROR(CheckWholeColumns(call));
  NormBackwardApply norm;
  norm.dy = ArrayOf(call.in[0]);
  norm.x = ArrayOf(call.in[1]);
  norm.gamma = ArrayOf(call.in[2]);
  if (!squares_only) norm.mean = ArrayOf(call.in[3]);
  norm.rstd = ArrayOf(call.in[squares_only ? 3 : 4]);
  norm.sums = ArrayOf(call.in[squares_only ? 4 : 5]);
  norm.dx = ArrayOf(call.out[0]);
  norm.rows = Rows(call.in[0]);
  norm.columns = Columns(call.in[0]);
  norm.whole_columns = call.attributes().whole_columns();
  norm.accumulate = call.step.accumulate();
  norm.in_double = ComputesInDouble(call.in);
  WEFT_RETURN_IF_ERROR(CheckParts(call, call.in[squares_only ? 4 : 5], norm.rows, squares_only ? 1 : 2));
  return call.Launch(norm);
}

}  // namespace weft::exec::cuda
