// TIMESTEP_EMBEDDING and SQUARED_ERROR.
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/diffusion.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {

absl::Status TimestepEmbeddingStep(const Call& call) {
  TimestepEmbedding e;
  e.timesteps = static_cast<const int32_t*>(call.in[0].data);
  e.y = ArrayOf(call.out[0]);
  e.rows = Rows(call.out[0]);
  e.columns = Columns(call.out[0]);
  e.scale = call.attributes().timestep_scale();
  return call.Launch(e);
}

absl::Status SquaredErrorStep(const Call& call) {
  SquaredError e;
  e.prediction = ArrayOf(call.in[0]);
  e.target = ArrayOf(call.in[1]);
  e.elements = Elements(call.in[0]);
  e.weight = call.attributes().loss_weight();
  WEFT_ASSIGN_OR_RETURN(e.loss, LossOf(call.step, call.out[0], call.context));
  WEFT_ASSIGN_OR_RETURN(void* scratch, call.Scratch(e.Parts() * 8));
  e.scratch = static_cast<double*>(scratch);
  return call.Launch(e);
}

}  // namespace weft::exec::cuda
