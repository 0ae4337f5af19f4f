// ADAMW, SGD_STEP, and the loss scale that they undo.
#include <algorithm>

#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/optimizer.h"
#include "proto/status.h"

namespace weft::cuda {
namespace {

// A vector of doubles.
absl::StatusOr<const double*> Vector(const Call& call, const TensorView& view, int64_t elements, const char* what) {
  if (view.dtype == FP64 && Elements(view) == elements) return static_cast<const double*>(view.data);
  return call.Error(what, " is ", Elements(view), " elements of ", DType_Name(view.dtype), "; it must be ", elements,
                    " of FP64");
}

// Checks a step whose kernel keeps `states` tensors: gradient, states, optional norm, optional scale; states, optional
// rounded weights.
absl::StatusOr<LossScaling> CheckUpdate(const Call& call, size_t states) {
  const size_t inputs = std::clamp<size_t>(call.in.size(), states + 1, states + 3);
  const size_t outputs = call.out.size() == states + 1 ? states + 1 : states;
  WEFT_RETURN_IF_ERROR(CheckTensors(call, inputs, outputs, (1u << (inputs + outputs)) - 1));
  for (const absl::Span<const TensorView> views : {call.in.subspan(1, states), call.out}) {
    for (const TensorView& view : views) {
      if (Elements(view) == Elements(call.in[0])) continue;
      return call.Error("a state of ", Elements(view), " elements for a gradient of ", Elements(call.in[0]));
    }
  }
  LossScaling scaling;
  if (inputs > states + 1) {
    WEFT_ASSIGN_OR_RETURN(scaling.norm, Vector(call, call.in[states + 1], 2, "norm"));
  }
  if (inputs > states + 2) {
    WEFT_ASSIGN_OR_RETURN(scaling.scale, Vector(call, call.in[states + 2], 3, "scale"));
  }
  return scaling;
}

}  // namespace

absl::Status AdamW(const Call& call) {
  AdamWUpdate args;
  WEFT_ASSIGN_OR_RETURN(args.scaling, CheckUpdate(call, 3));
  args.elements = Elements(call.in[0]);
  args.in_double = ComputesInDouble(call.in.subspan(0, 4));
  args.gradient = ArrayOf(call.in[0]);
  for (int i = 0; i < 3; ++i) {
    args.from[i] = ArrayOf(call.in[i + 1]);
    args.to[i] = ArrayOf(call.out[i]);
  }
  if (call.out.size() == 4) args.param = ArrayOf(call.out[3]);
  args.learning_rate = call.context.learning_rate;
  args.beta1 = call.attributes().beta1();
  args.beta2 = call.attributes().beta2();
  args.epsilon = call.attributes().epsilon();
  args.weight_decay = call.attributes().weight_decay();
  args.step = static_cast<double>(call.context.step + 1);
  return call.Launch(args);
}

absl::Status SgdStep(const Call& call) {
  const size_t states = call.attributes().momentum() != 0 ? 2 : 1;
  SgdUpdate args;
  WEFT_ASSIGN_OR_RETURN(args.scaling, CheckUpdate(call, states));
  args.elements = Elements(call.in[0]);
  args.in_double = ComputesInDouble(call.in.subspan(0, states + 1));
  args.gradient = ArrayOf(call.in[0]);
  for (size_t i = 0; i < states; ++i) {
    args.from[i] = ArrayOf(call.in[i + 1]);
    args.to[i] = ArrayOf(call.out[i]);
  }
  if (call.out.size() > states) args.param = ArrayOf(call.out[states]);
  args.learning_rate = call.context.learning_rate;
  args.momentum = call.attributes().momentum();
  args.weight_decay = call.attributes().weight_decay();
  return call.Launch(args);
}

absl::Status UpdateLossScale(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 2, 1, 0b111));
  LossScaleUpdate args;
  WEFT_ASSIGN_OR_RETURN(args.norm, Vector(call, call.in[0], 2, "norm"));
  WEFT_ASSIGN_OR_RETURN(args.from, Vector(call, call.in[1], 3, "scale"));
  WEFT_RETURN_IF_ERROR(Vector(call, call.out[0], 3, "output 0").status());
  args.growth_interval = call.attributes().growth_interval();
  args.to = static_cast<double*>(call.out[0].data);
  return call.Launch(args);
}

}  // namespace weft::cuda
