// LAYER_NORM, RMS_NORM and their backward kernels. RMS_NORM is LAYER_NORM without beta and mean.
#include "executor/backends/cuda/cuda_norm.h"

#include "proto/util/status.h"

namespace weft::exec::cuda {

absl::StatusOr<Norm> RowNormArguments(const Call& call) {
  const bool centred = call.step.kernel() == LAYER_NORM;
  const size_t statistics = centred ? 2 : 1;
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 1 + statistics, 1 + statistics, centred ? 0b111111 : 0b1111));
  Norm norm;
  norm.x = ArrayOf(call.in[0]);
  norm.gamma = ArrayOf(call.in[1]);
  norm.y = ArrayOf(call.out[0]);
  if (centred) {
    norm.beta = ArrayOf(call.in[2]);
    norm.mean = ArrayOf(call.out[1]);
  }
  norm.rstd = ArrayOf(call.out[statistics]);
  norm.rows = Rows(call.in[0]);
  norm.columns = Columns(call.in[0]);
  norm.epsilon = call.attributes().epsilon();
  norm.in_double = ComputesInDouble(call.in);
  return norm;
}

absl::StatusOr<NormBackward> RowNormBackwardArguments(const Call& call) {
  const bool centred = call.step.kernel() == LAYER_NORM_BACKWARD;
  const size_t statistics = centred ? 2 : 1;
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 3 + statistics, 1, centred ? 0b111111 : 0b11111));
  NormBackward norm;
  norm.dy = ArrayOf(call.in[0]);
  norm.x = ArrayOf(call.in[1]);
  norm.gamma = ArrayOf(call.in[2]);
  if (centred) norm.mean = ArrayOf(call.in[3]);
  norm.rstd = ArrayOf(call.in[2 + statistics]);
  norm.dx = ArrayOf(call.out[0]);
  norm.rows = Rows(call.in[0]);
  norm.columns = Columns(call.in[0]);
  norm.accumulate = call.step.accumulate();
  norm.in_double = ComputesInDouble(call.in);
  return norm;
}

absl::Status RowNorm(const Call& call) {
  WEFT_ASSIGN_OR_RETURN(const Norm norm, RowNormArguments(call));
  return call.Launch(norm);
}

absl::Status RowNormBackward(const Call& call) {
  WEFT_ASSIGN_OR_RETURN(const NormBackward norm, RowNormBackwardArguments(call));
  return call.Launch(norm);
}

}  // namespace weft::exec::cuda
