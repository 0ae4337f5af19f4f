// TIMESTEP_EMBEDDING and SQUARED_ERROR.
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/diffusion.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {

absl::Status TimestepEmbeddingStep(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 1, 1, 0b10, 0b1));
  TimestepEmbedding e;
  e.timesteps = static_cast<const int32_t*>(call.in[0].data);
  e.y = ArrayOf(call.out[0]);
  e.rows = Rows(call.out[0]);
  e.columns = Columns(call.out[0]);
  e.scale = call.attributes().timestep_scale();
  if (Elements(call.in[0]) != e.rows) {
    return call.Error(Elements(call.in[0]), " times for ", e.rows, " rows; there must be one for each");
  }
  return call.Launch(e);
}

absl::Status SquaredErrorStep(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 2, 1, 0b111));
  const TensorView& losses = call.out[0];
  const int64_t g = call.context.global_microbatch;
  if (losses.dtype != FP64 || g < 0 || g >= Elements(losses)) {
    return call.Error("losses are ", Elements(losses), " elements of ", DType_Name(losses.dtype),
                      "; they must be FP64 and have global microbatch ", g);
  }
  SquaredError e;
  e.prediction = ArrayOf(call.in[0]);
  e.target = ArrayOf(call.in[1]);
  e.elements = Elements(call.in[0]);
  e.weight = call.attributes().loss_weight();
  if (Elements(call.in[1]) != e.elements) {
    return call.Error("a prediction of ", e.elements, " elements and a target of ", Elements(call.in[1]));
  }
  e.loss = static_cast<double*>(losses.data) + g;
  WEFT_ASSIGN_OR_RETURN(void* scratch, call.Scratch(e.Parts() * 8));
  e.scratch = static_cast<double*>(scratch);
  return call.Launch(e);
}

}  // namespace weft::exec::cuda
