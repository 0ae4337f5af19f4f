// LAYER_NORM, RMS_NORM and their backwards.
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/norm.h"
#include "proto/status.h"

namespace weft::cuda {

absl::Status LayerNorm(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 3, 3, 0b111111));
  Norm norm;
  norm.x = ArrayOf(call.in[0]);
  norm.gamma = ArrayOf(call.in[1]);
  norm.beta = ArrayOf(call.in[2]);
  norm.y = ArrayOf(call.out[0]);
  norm.mean = ArrayOf(call.out[1]);
  norm.rstd = ArrayOf(call.out[2]);
  norm.rows = Rows(call.in[0]);
  norm.columns = Columns(call.in[0]);
  norm.epsilon = call.attributes().epsilon();
  norm.in_double = ComputesInDouble(call.in);
  return call.Launch(norm);
}

absl::Status RmsNorm(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 2, 2, 0b1111));
  Norm norm;
  norm.x = ArrayOf(call.in[0]);
  norm.gamma = ArrayOf(call.in[1]);
  norm.y = ArrayOf(call.out[0]);
  norm.rstd = ArrayOf(call.out[1]);
  norm.rows = Rows(call.in[0]);
  norm.columns = Columns(call.in[0]);
  norm.epsilon = call.attributes().epsilon();
  norm.in_double = ComputesInDouble(call.in);
  return call.Launch(norm);
}

absl::Status LayerNormBackward(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 5, 1, 0b111111));
  NormBackward norm;
  norm.dy = ArrayOf(call.in[0]);
  norm.x = ArrayOf(call.in[1]);
  norm.gamma = ArrayOf(call.in[2]);
  norm.mean = ArrayOf(call.in[3]);
  norm.rstd = ArrayOf(call.in[4]);
  norm.dx = ArrayOf(call.out[0]);
  norm.rows = Rows(call.in[0]);
  norm.columns = Columns(call.in[0]);
  norm.accumulate = call.step.accumulate();
  norm.in_double = ComputesInDouble(call.in);
  return call.Launch(norm);
}

absl::Status RmsNormBackward(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 4, 1, 0b11111));
  NormBackward norm;
  norm.dy = ArrayOf(call.in[0]);
  norm.x = ArrayOf(call.in[1]);
  norm.gamma = ArrayOf(call.in[2]);
  norm.rstd = ArrayOf(call.in[3]);
  norm.dx = ArrayOf(call.out[0]);
  norm.rows = Rows(call.in[0]);
  norm.columns = Columns(call.in[0]);
  norm.accumulate = call.step.accumulate();
  norm.in_double = ComputesInDouble(call.in);
  return call.Launch(norm);
}

}  // namespace weft::cuda
