// ADAMW and SGD_STEP, which undo the loss scale, and UPDATE_LOSS_SCALE.
#include "executor/backends/cuda/cuda_optimizer.h"

#include <algorithm>

#include "executor/numerics/philox.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

// Returns the data of `view`, or an error unless it is a vector of `elements` doubles.
absl::StatusOr<const double*> Vector(const Call& call, const TensorView& view, int64_t elements, const char* what) {
  if (view.dtype == FP64 && Elements(view) == elements) return static_cast<const double*>(view.data);
  return call.Error(what, " is ", Elements(view), " elements of ", DType_Name(view.dtype), "; it must be ", elements,
                    " of FP64");
}

// Checks a step whose kernel keeps `states` tensors. Inputs: gradient, states, optional norm, optional scale. Outputs:
// states, optional rounded weights.
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

// Fills in the tensors of an update.
absl::Status FillTensors(const Call& call, size_t states, TensorUpdate& args) {
  args.elements = Elements(call.in[0]);
  args.gradient = ArrayOf(call.in[0]);
  for (size_t i = 0; i < states; ++i) {
    args.from[i] = ArrayOf(call.in[i + 1]);
    args.to[i] = ArrayOf(call.out[i]);
  }
  if (call.out.size() > states) args.param = ArrayOf(call.out[states]);
  args.weight_decay = call.attributes().weight_decay();
  if (call.attributes().rounding_site() == 0) return absl::OkStatus();
  const bool half = args.param.type == Type::kBf16 || args.param.type == Type::kFp16;
  if (!half || ComputesInDouble(call.in.subspan(0, states + 1))) {
    return call.Error("stochastic rounding is of weights in FP32, to a last output of BF16 or FP16");
  }
  args.rounding_tensor = call.attributes().rounding_site() - 1;
  args.first_element = call.context.first_element;
  return absl::OkStatus();
}

StochasticRounding RoundingOf(const StepContext& context, const StepAttributes& attributes) {
  StochasticRounding rounding;
  if (attributes.rounding_site() == 0) return rounding;
  const auto key = [&](PhiloxPurpose purpose) { return MakePhiloxKey(context.seed, purpose); };
  const PhiloxKey weights = key(PhiloxPurpose::kWeightRounding);
  return {true,
          weights.low,
          weights.high,
          static_cast<uint32_t>(context.step),
          {key(PhiloxPurpose::kFirstMomentRounding).high, key(PhiloxPurpose::kSecondMomentRounding).high}};
}

}  // namespace

absl::StatusOr<AdamWUpdate> AdamWArguments(const Call& call) {
  AdamWUpdate args;
  WEFT_ASSIGN_OR_RETURN(args.scaling, CheckUpdate(call, 3));
  WEFT_RETURN_IF_ERROR(FillTensors(call, 3, args));
  args.in_double = ComputesInDouble(call.in.subspan(0, 4));
  args.beta1 = call.attributes().beta1();
  args.beta2 = call.attributes().beta2();
  args.epsilon = call.attributes().epsilon();
  SetStep(call.context, call.attributes(), args);
  return args;
}

void SetStep(const StepContext& context, const StepAttributes& attributes, AdamWUpdate& args) {
  args.learning_rate = context.learning_rate;
  args.step = static_cast<double>(context.step + 1);
  args.rounding = RoundingOf(context, attributes);
}

absl::Status AdamW(const Call& call) {
  WEFT_ASSIGN_OR_RETURN(const AdamWUpdate args, AdamWArguments(call));
  return call.Launch(args);
}

absl::StatusOr<SgdUpdate> SgdArguments(const Call& call) {
  const size_t states = call.attributes().momentum() != 0 ? 2 : 1;
  SgdUpdate args;
  WEFT_ASSIGN_OR_RETURN(args.scaling, CheckUpdate(call, states));
  WEFT_RETURN_IF_ERROR(FillTensors(call, states, args));
  args.in_double = ComputesInDouble(call.in.subspan(0, states + 1));
  args.momentum = call.attributes().momentum();
  SetStep(call.context, call.attributes(), args);
  return args;
}

void SetStep(const StepContext& context, const StepAttributes& attributes, SgdUpdate& args) {
  args.learning_rate = context.learning_rate;
  args.rounding = RoundingOf(context, attributes);
}

absl::Status SgdStep(const Call& call) {
  WEFT_ASSIGN_OR_RETURN(const SgdUpdate args, SgdArguments(call));
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

}  // namespace weft::exec::cuda
