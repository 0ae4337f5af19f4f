// DROPOUT, and its variants that write or read a mask.
#include "executor/backends/cuda/cuda_dropout.h"

#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

// Runs dropout. `mask` receives the mask; null if the step has no mask.
absl::Status Drop(const Call& call, const TensorView* mask) {
  const StepAttributes& a = call.attributes();
  const StepContext& context = call.context;
  Dropout d;
  d.x = ArrayOf(call.in[0]);
  d.y = ArrayOf(call.out[0]);
  d.mask = mask == nullptr ? nullptr : static_cast<uint8_t*>(mask->data);
  d.rows = Rows(call.in[0]);
  d.columns = Columns(call.in[0]);
  d.heads = a.heads();
  d.sequence = RowsOfSample(call.step, call.in[0], context);
  d.whole = std::max(d.heads > 0 ? d.heads : d.columns, a.whole_columns());
  d.column_shift = context.column_shift;
  d.row_shift = context.row_shift;
  if (d.rows * d.columns == 0) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(CheckDropout(call.step, call.in[0], context));
  d.samples = SamplesOf(context);
  d.key = DropoutKeyOf(call);
  d.in_double = ComputesInDouble(call.in);
  return call.Launch(d);
}

}  // namespace

Samples SamplesOf(const StepContext& context) {
  return {context.first_sample, context.own_sequences, context.sample_stride};
}

DropoutKey DropoutKeyOf(const Call& call) {
  const PhiloxKey philox = MakePhiloxKey(call.context.seed, PhiloxPurpose::kDropout);
  const double p = call.attributes().dropout();
  return {philox.low, philox.high, call.attributes().dropout_site(), static_cast<uint32_t>(p * 0x1p32), 1 / (1 - p)};
}

absl::Status DropoutStep(const Call& call) { return Drop(call, nullptr); }

absl::Status DropoutMaskStep(const Call& call) { return Drop(call, &call.out[1]); }

absl::Status DropoutByMaskStep(const Call& call) {
  DropoutByMask d;
  d.x = ArrayOf(call.in[0]);
  d.y = ArrayOf(call.out[0]);
  d.mask = static_cast<const uint8_t*>(call.in[1].data);
  d.elements = Elements(call.in[0]);
  d.factor = 1 / (1 - call.attributes().dropout());
  d.in_double = ComputesInDouble(call.in);
  return call.Launch(d);
}

}  // namespace weft::exec::cuda
