// LAYER_NORM, RMS_NORM and their backwards. The root mean square norm is the other without beta and mean.
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/norm.h"
#include "proto/status.h"

namespace weft::cuda {
namespace {

absl::Status Forward(const Call& call, bool centred) {
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
  return call.Launch(norm);
}

absl::Status Backward(const Call& call, bool centred) {
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
  return call.Launch(norm);
}

}  // namespace

absl::Status LayerNorm(const Call& call) { return Forward(call, true); }
absl::Status RmsNorm(const Call& call) { return Forward(call, false); }
absl::Status LayerNormBackward(const Call& call) { return Backward(call, true); }
absl::Status RmsNormBackward(const Call& call) { return Backward(call, false); }

}  // namespace weft::cuda
