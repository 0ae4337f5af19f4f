// CROSS_ENTROPY of whole rows and of columns split over ranks, and its backward kernel.
#include <algorithm>

#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/cross_entropy.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

absl::StatusOr<double*> LossesOfRows(const Call& call, int64_t rows) {
  WEFT_ASSIGN_OR_RETURN(void* const scratch, call.Scratch(rows * static_cast<int64_t>(sizeof(double))));
  return static_cast<double*>(scratch);
}

Logits LogitsOf(const Call& call, const TensorView& values, const TensorView& targets, bool in_double) {
  Logits logits;
  logits.values = ArrayOf(values);
  logits.rows = Rows(values);
  logits.columns = Columns(values);
  logits.column_shift = call.context.column_shift;
  logits.vocabulary = std::clamp<int64_t>(call.attributes().vocabulary() - logits.column_shift, 0, logits.columns);
  logits.targets = static_cast<const int32_t*>(targets.data);
  logits.in_double = in_double;
  return logits;
}

}  // namespace

absl::Status CrossEntropy(const Call& call) {
  LogitsLoss args;
  args.logits = LogitsOf(call, call.in[0], call.in[1], ComputesInDouble(call.in));
  WEFT_ASSIGN_OR_RETURN(args.loss, LossOf(call.step, call.out[1], call.context));
  args.weight = call.attributes().loss_weight();
  args.lse = ArrayOf(call.out[0]);
  WEFT_ASSIGN_OR_RETURN(args.of_rows, LossesOfRows(call, args.logits.rows));
  return call.Launch(args);
}

absl::Status CrossEntropyPartial(const Call& call) {
  LogitsPartial args;
  args.logits = LogitsOf(call, call.in[0], call.in[1], ComputesInDouble(call.in));
  args.pairs = ArrayOf(call.out[0]);
  return call.Launch(args);
}

absl::Status CrossEntropyCombine(const Call& call) {
  PartialsLoss args;
  args.pairs = ArrayOf(call.in[0]);
  args.rows = Elements(call.in[1]);
  args.parts = Rows(call.in[0]) / std::max<int64_t>(args.rows, 1);
  args.targets = static_cast<const int32_t*>(call.in[1].data);
  args.in_double = ComputesInDouble(call.in);
  args.weight = call.attributes().loss_weight();
  args.lse = ArrayOf(call.out[0]);
  WEFT_ASSIGN_OR_RETURN(args.loss, LossOf(call.step, call.out[1], call.context));
  WEFT_ASSIGN_OR_RETURN(args.of_rows, LossesOfRows(call, args.rows));
  return call.Launch(args);
}

absl::Status CrossEntropyBackward(const Call& call) {
  LogitsGradient args;
  // The type of the scale (input 3) does not count: the scale is always a double.
  const bool in_double = ComputesInDouble(call.in.subspan(0, 3));
  args.logits = LogitsOf(call, call.in[0], call.in[2], in_double);
  if (call.in.size() == 4) args.scale = static_cast<const double*>(call.in[3].data);
  args.lse = ArrayOf(call.in[1]);
  args.weight = call.attributes().loss_weight();
  args.dlogits = ArrayOf(call.out[0]);
  return call.Launch(args);
}

}  // namespace weft::exec::cuda
