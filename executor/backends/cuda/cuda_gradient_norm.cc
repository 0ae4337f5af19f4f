// SQUARED_NORM, NORM_TOTAL: norms of gradients.
#include "executor/backends/cuda/cuda_gradient_norm.h"

#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

absl::Status CheckNorms(const Call& call, const TensorView& view, const char* what) {
  if (view.dtype == FP64 || view.dtype == EXACT192) return absl::OkStatus();
  return call.Error(what, " is ", DType_Name(view.dtype), "; it must be FP64 or EXACT192");
}

}  // namespace

absl::StatusOr<SumOfSquares> NormArguments(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 1, 1, 0b1));
  const TensorView& norms = call.out[0];
  WEFT_RETURN_IF_ERROR(CheckNorms(call, norms, "output 0"));
  const int64_t slot = call.attributes().slot();
  if (slot < 0 || slot >= Elements(norms)) {
    return absl::OutOfRangeError(
        absl::StrCat("step '", call.step.name(), "': slot ", slot, "; the output has ", Elements(norms), " elements"));
  }
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
  WEFT_ASSIGN_OR_RETURN(SumOfSquares args, NormArguments(call));
  WEFT_ASSIGN_OR_RETURN(args.scratch, call.Scratch(kNormScratchBytes));
  return call.Launch(args);
}

absl::Status NormTotal(const Call& call) {
  const bool dynamic = call.in.size() == 2;
  WEFT_RETURN_IF_ERROR(CheckTensors(call, dynamic ? 2 : 1, 1, dynamic ? 0b110 : 0b10));
  WEFT_RETURN_IF_ERROR(CheckNorms(call, call.in[0], "input 0"));
  NormOfAll args;
  if (call.in[0].dtype == EXACT192) {
    args.exact_norms = static_cast<const Exact192*>(call.in[0].data);
  } else {
    args.norms = static_cast<const double*>(call.in[0].data);
  }
  args.count = Elements(call.in[0]);
  if (dynamic) {
    const TensorView& scale = call.in[1];
    if (scale.dtype != FP64 || Elements(scale) != 3) {
      return call.Error("the scale is ", Elements(scale), " elements of ", DType_Name(scale.dtype),
                        "; it must be 3 of FP64");
    }
    args.scale = static_cast<const double*>(scale.data);
  }
  if (call.out[0].dtype != FP64 || Elements(call.out[0]) < 2) {
    return call.Error("output 0 is ", Elements(call.out[0]), " elements of ", DType_Name(call.out[0].dtype),
                      "; it must be 2 of FP64");
  }
  if (call.attributes().loss_scale() > 0) args.fixed_scale = call.attributes().loss_scale();
  args.clip_norm = call.attributes().clip_norm();
  args.norm = static_cast<double*>(call.out[0].data);
  return call.Launch(args);
}

}  // namespace weft::exec::cuda
