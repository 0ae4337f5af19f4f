// DROPOUT, and its variants that write or read a mask.
#include "executor/backends/cuda/cuda_dropout.h"

#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

// `mask` may be null.
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
  d.sequence = a.sequence() > 0                    ? a.sequence()
               : context.microbatch_sequences >= 1 ? d.rows / context.microbatch_sequences
                                                   : 0;
  d.whole = std::max(d.heads > 0 ? d.heads : d.columns, a.whole_columns());
  d.column_shift = context.column_shift;
  d.row_shift = context.row_shift;
  if (Elements(call.out[0]) != d.rows * d.columns) {
    return call.Error("the output has ", Elements(call.out[0]), " elements, the input ", d.rows * d.columns);
  }
  if (d.rows * d.columns == 0) return absl::OkStatus();
  if (d.sequence < 1 || (d.heads > 0 && d.columns != d.heads * d.sequence)) {
    return call.Error(d.columns, " columns are not those of ", d.heads, " heads and sequences of ", d.sequence);
  }
  WEFT_RETURN_IF_ERROR(CheckDropout(call, d.sequence * d.whole * (d.heads > 0 ? d.sequence : 1)));
  d.samples = SamplesOf(context);
  d.key = DropoutKeyOf(call);
  d.in_double = ComputesInDouble(call.in);
  return call.Launch(d);
}

// Returns InvalidArgument unless `mask` has one byte for each element of input 0.
absl::Status CheckMask(const Call& call, const TensorView& mask) {
  if (mask.dtype == UINT8 && Columns(mask) == Columns(call.in[0]) && Rows(mask) == Rows(call.in[0])) {
    return absl::OkStatus();
  }
  return call.Error("its mask must be UINT8, of the shape of its input");
}

}  // namespace

absl::Status CheckDropout(const Call& call, int64_t elements_per_sample) {
  const double p = call.attributes().dropout();
  if (!(p >= 0 && p < 1)) return call.Error("dropout is ", p, "; it must be in [0, 1)");
  if (p > 0 && elements_per_sample > (int64_t{1} << 34)) {
    return call.Error(elements_per_sample, " elements of one sample at a dropout site; at most 2^34");
  }
  return absl::OkStatus();
}

Samples SamplesOf(const StepContext& context) {
  return {context.first_sample, context.own_sequences, context.sample_stride};
}

DropoutKey DropoutKeyOf(const Call& call) {
  const PhiloxKey philox = MakePhiloxKey(call.context.seed, PhiloxPurpose::kDropout);
  const double p = call.attributes().dropout();
  return {philox.low, philox.high, call.attributes().dropout_site(), static_cast<uint32_t>(p * 0x1p32), 1 / (1 - p)};
}

absl::Status DropoutStep(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 1, 1, 0b11));
  return Drop(call, nullptr);
}

absl::Status DropoutMaskStep(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 1, 2, 0b11));
  WEFT_RETURN_IF_ERROR(CheckMask(call, call.out[1]));
  return Drop(call, &call.out[1]);
}

absl::Status DropoutByMaskStep(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 2, 1, 0b101));
  WEFT_RETURN_IF_ERROR(CheckMask(call, call.in[1]));
  WEFT_RETURN_IF_ERROR(CheckDropout(call, 0));
  DropoutByMask d;
  d.x = ArrayOf(call.in[0]);
  d.y = ArrayOf(call.out[0]);
  d.mask = static_cast<const uint8_t*>(call.in[1].data);
  d.elements = Elements(call.in[0]);
  d.factor = 1 / (1 - call.attributes().dropout());
  d.in_double = ComputesInDouble(call.in);
  if (Elements(call.out[0]) != d.elements) {
    return call.Error("the output has ", Elements(call.out[0]), " elements, the input ", d.elements);
  }
  return call.Launch(d);
}

}  // namespace weft::exec::cuda
