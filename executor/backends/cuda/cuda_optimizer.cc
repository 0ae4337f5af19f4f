// ADAMW and SGD_STEP, which undo the loss scale, and UPDATE_LOSS_SCALE.
#include "executor/backends/cuda/cuda_arguments.h"
#include "executor/numerics/philox.h"

namespace weft::exec::cuda {
namespace {

const double* DoublesOf(const TensorView& view) { return static_cast<const double*>(view.data); }

// Fills in the tensors of an update whose kernel keeps `states` tensors. Inputs: gradient, states, optional norm,
// optional scale. Outputs: states, optional rounded weights.
void FillTensors(const Call& call, size_t states, TensorUpdate& args, LossScaling& scaling) {
  args.elements = Elements(call.in[0]);
  args.gradient = ArrayOf(call.in[0]);
  for (size_t i = 0; i < states; ++i) {
    args.from[i] = ArrayOf(call.in[i + 1]);
    args.to[i] = ArrayOf(call.out[i]);
  }
  if (call.out.size() > states) args.param = ArrayOf(call.out[states]);
  if (call.in.size() > states + 1) scaling.norm = DoublesOf(call.in[states + 1]);
  if (call.in.size() > states + 2) scaling.scale = DoublesOf(call.in[states + 2]);
  args.weight_decay = call.attributes().weight_decay();
  if (call.attributes().rounding_site() == 0) return;
  args.rounding_tensor = call.attributes().rounding_site() - 1;
  args.first_element = call.context.first_element;
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

AdamWUpdate AdamWArguments(const Call& call) {
  AdamWUpdate args;
  FillTensors(call, 3, args, args.scaling);
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

absl::Status AdamW(const Call& call) { return call.Launch(AdamWArguments(call)); }

SgdUpdate SgdArguments(const Call& call) {
  const size_t states = call.attributes().momentum() != 0 ? 2 : 1;
  SgdUpdate args;
  FillTensors(call, states, args, args.scaling);
  args.in_double = ComputesInDouble(call.in.subspan(0, states + 1));
  args.momentum = call.attributes().momentum();
  SetStep(call.context, call.attributes(), args);
  return args;
}

void SetStep(const StepContext& context, const StepAttributes& attributes, SgdUpdate& args) {
  args.learning_rate = context.learning_rate;
  args.rounding = RoundingOf(context, attributes);
}

absl::Status SgdStep(const Call& call) { return call.Launch(SgdArguments(call)); }

absl::Status UpdateLossScale(const Call& call) {
  LossScaleUpdate args;
  args.norm = DoublesOf(call.in[0]);
  args.from = DoublesOf(call.in[1]);
  args.growth_interval = call.attributes().growth_interval();
  args.to = static_cast<double*>(call.out[0].data);
  return call.Launch(args);
}

}  // namespace weft::exec::cuda
