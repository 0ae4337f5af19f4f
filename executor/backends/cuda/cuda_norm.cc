// LAYER_NORM, RMS_NORM and their backward kernels. RMS_NORM is LAYER_NORM without beta and mean.
#include "executor/backends/cuda/cuda_arguments.h"

namespace weft::exec::cuda {

Norm RowNormArguments(const Call& call) {
  const bool centered = call.step.kernel() == LAYER_NORM;
  const size_t statistics = centered ? 2 : 1;
  Norm norm;
  norm.x = ArrayOf(call.in[0]);
  norm.gamma = ArrayOf(call.in[1]);
  norm.y = ArrayOf(call.out[0]);
  if (centered) {
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

NormBackward RowNormBackwardArguments(const Call& call) {
  const bool centered = call.step.kernel() == LAYER_NORM_BACKWARD;
  const size_t statistics = centered ? 2 : 1;
  NormBackward norm;
  norm.dy = ArrayOf(call.in[0]);
  norm.x = ArrayOf(call.in[1]);
  norm.gamma = ArrayOf(call.in[2]);
  if (centered) norm.mean = ArrayOf(call.in[3]);
  norm.rstd = ArrayOf(call.in[2 + statistics]);
  norm.dx = ArrayOf(call.out[0]);
  norm.rows = Rows(call.in[0]);
  norm.columns = Columns(call.in[0]);
  norm.accumulate = call.step.accumulate();
  norm.in_double = ComputesInDouble(call.in);
  return norm;
}

absl::Status RowNorm(const Call& call) { return call.Launch(RowNormArguments(call)); }

absl::Status RowNormBackward(const Call& call) { return call.Launch(RowNormBackwardArguments(call)); }

}  // namespace weft::exec::cuda
