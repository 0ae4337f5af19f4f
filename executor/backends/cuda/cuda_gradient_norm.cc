// SQUARED_NORM, NORM_TOTAL: norms of gradients.
#include "executor/backends/cuda/cuda_arguments.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
SumOfSquares NormArguments(const Call& call) {
  const TensorView& norms = call.out[0];
  const int64_t slot = call.attributes().slot();
  SumOfSquares args;
  args.x = ArrayOf(call.in[0]);
  args.elements = call.context.writes_norm ? Elements(call.in[0]) : 0;
  if (norms.dtype == EXACT192) {
    args.exact_norm = static_cast<Exact192*>(norms.data) + slot;
  } else {
    args.norm = static_cast<double*>(norms.data) + slot;
  }
  return args;
}

absl::Status SquaredNorm(const Call& call) {
  SumOfSquares args = NormArguments(call);
  WEFT_ASSIGN_OR_RETURN(args.scratch, call.Scratch(kNormScratchBytes));
  return call.Launch(args);
}

absl::Status NormTotal(const Call& call) {
  NormOfAll args;
  if (call.in[0].dtype == EXACT192) {
    args.exact_norms = static_cast<const Exact192*>(call.in[0].data);
  } else {
    args.norms = static_cast<const double*>(call.in[0].data);
  }
  args.count = Elements(call.in[0]);
  if (call.in.size() == 2) args.scale = static_cast<const double*>(call.in[1].data);
  if (call.attributes().loss_scale() > 0) args.fixed_scale = call.attributes().loss_scale();
  args.clip_norm = call.attributes().clip_norm();
  args.norm = static_cast<double*>(call.out[0].data);
  return call.Launch(args);
}

}  // namespace weft::exec::cuda
