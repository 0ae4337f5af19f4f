// Norms of rows whose columns are split over ranks.
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/split_norm.h"

namespace weft::exec::cuda {
absl::Status NormPartialStep(const Call& call) {
  NormPartial norm;
  norm.x = ArrayOf(call.in[0]);
  norm.partial = ArrayOf(call.out[0]);
  norm.rows = Rows(call.in[0]);
  norm.columns = Columns(call.in[0]);
  norm.squares_only = call.attributes().root_mean_square();
  norm.in_double = ComputesInDouble(call.in);
  return call.Launch(norm);
}

absl::Status NormCombineStep(const Call& call) {
  const bool squares_only = call.attributes().root_mean_square();
  NormCombine norm;
  norm.partials = ArrayOf(call.in[0]);
  if (!squares_only) norm.mean = ArrayOf(call.out[0]);
  norm.rstd = ArrayOf(call.out[squares_only ? 0 : 1]);
  norm.rows = Elements(call.out[squares_only ? 0 : 1]);
  norm.parts = Rows(call.in[0]) / norm.rows;
  norm.whole_columns = call.attributes().whole_columns();
  norm.epsilon = call.attributes().epsilon();
  norm.in_double = ComputesInDouble(call.in);
  return call.Launch(norm);
}

absl::Status NormApplyStep(const Call& call) {
  const bool squares_only = call.attributes().root_mean_square();
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
  return call.Launch(norm);
}

absl::Status NormBackwardApplyStep(const Call& call) {
  const bool squares_only = call.attributes().root_mean_square();
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
  return call.Launch(norm);
}

}  // namespace weft::exec::cuda
