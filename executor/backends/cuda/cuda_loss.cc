// CROSS_ENTROPY of whole rows and of columns split over ranks, and its backward kernel.
#include <algorithm>

#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/cross_entropy.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

// Returns the element of losses that the step writes.
absl::StatusOr<double*> LossOf(const Call& call) {
  const TensorView& losses = call.out[1];
  if (losses.dtype != FP64) return call.Error("output 1 is ", DType_Name(losses.dtype), "; it must be FP64");
  const int64_t index = call.context.global_microbatch;
  if (index < 0 || index >= Elements(losses)) {
    return absl::OutOfRangeError(absl::StrCat("step '", call.step.name(), "': global microbatch ", index,
                                              "; the output has ", Elements(losses), " elements"));
  }
  return static_cast<double*>(losses.data) + index;
}

absl::Status CheckRows(const Call& call, const TensorView& view, int64_t rows, const char* what) {
  if (Elements(view) == rows) return absl::OkStatus();
  return call.Error(what, " have ", Elements(view), " elements for ", rows, " rows");
}

absl::StatusOr<double*> LossesOfRows(const Call& call, int64_t rows) {
  WEFT_ASSIGN_OR_RETURN(void* const scratch, call.Scratch(rows * static_cast<int64_t>(sizeof(double))));
  return static_cast<double*>(scratch);
}

absl::StatusOr<Logits> LogitsOf(const Call& call, const TensorView& values, const TensorView& targets, bool in_double) {
  Logits logits;
  logits.values = ArrayOf(values);
  logits.rows = Rows(values);
  logits.columns = Columns(values);
  logits.column_shift = call.context.column_shift;
  logits.vocabulary = std::clamp<int64_t>(call.attributes().vocabulary() - logits.column_shift, 0, logits.columns);
  logits.targets = static_cast<const int32_t*>(targets.data);
  logits.in_double = in_double;
  WEFT_RETURN_IF_ERROR(CheckRows(call, targets, logits.rows, "targets"));
  return logits;
}

}  // namespace

absl::Status CrossEntropy(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 2, 2, 0b1101, 0b10));
  LogitsLoss args;
  WEFT_ASSIGN_OR_RETURN(args.logits, LogitsOf(call, call.in[0], call.in[1], ComputesInDouble(call.in)));
  WEFT_RETURN_IF_ERROR(CheckRows(call, call.out[0], args.logits.rows, "log-sum-exps"));
  WEFT_ASSIGN_OR_RETURN(args.loss, LossOf(call));
  args.weight = call.attributes().loss_weight();
  args.lse = ArrayOf(call.out[0]);
  WEFT_ASSIGN_OR_RETURN(args.of_rows, LossesOfRows(call, args.logits.rows));
  return call.Launch(args);
}

absl::Status CrossEntropyPartial(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 2, 1, 0b101, 0b10));
  LogitsPartial args;
  WEFT_ASSIGN_OR_RETURN(args.logits, LogitsOf(call, call.in[0], call.in[1], ComputesInDouble(call.in)));
  WEFT_RETURN_IF_ERROR(CheckRows(call, call.out[0], 2 * args.logits.rows, "pairs"));
  args.pairs = ArrayOf(call.out[0]);
  return call.Launch(args);
}

absl::Status CrossEntropyCombine(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 2, 2, 0b1101, 0b10));
  PartialsLoss args;
  args.pairs = ArrayOf(call.in[0]);
  args.rows = Elements(call.in[1]);
  args.parts = Rows(call.in[0]) / std::max<int64_t>(args.rows, 1);
  WEFT_RETURN_IF_ERROR(CheckRows(call, call.in[0], 2 * args.parts * args.rows, "pairs"));
  WEFT_RETURN_IF_ERROR(CheckRows(call, call.out[0], args.rows, "log-sum-exps"));
  args.targets = static_cast<const int32_t*>(call.in[1].data);
  args.in_double = ComputesInDouble(call.in);
  args.weight = call.attributes().loss_weight();
  args.lse = ArrayOf(call.out[0]);
  WEFT_ASSIGN_OR_RETURN(args.loss, LossOf(call));
  WEFT_ASSIGN_OR_RETURN(args.of_rows, LossesOfRows(call, args.rows));
  return call.Launch(args);
}

absl::Status CrossEntropyBackward(const Call& call) {
  const size_t inputs = call.in.size() == 4 ? 4 : 3;
  WEFT_RETURN_IF_ERROR(CheckTensors(call, inputs, 1, 0b11 | 1u << inputs, 0b100));
  LogitsGradient args;
  // The scale is in double whatever the kernel computes in.
  const bool in_double = ComputesInDouble(call.in.subspan(0, 3));
  WEFT_ASSIGN_OR_RETURN(args.logits, LogitsOf(call, call.in[0], call.in[2], in_double));
  WEFT_RETURN_IF_ERROR(CheckRows(call, call.in[1], args.logits.rows, "log-sum-exps"));
  if (inputs == 4) {
    if (call.in[3].dtype != FP64) return call.Error("the scale is ", DType_Name(call.in[3].dtype), "; it must be FP64");
    args.scale = static_cast<const double*>(call.in[3].data);
  }
  args.lse = ArrayOf(call.in[1]);
  args.weight = call.attributes().loss_weight();
  args.dlogits = ArrayOf(call.out[0]);
  return call.Launch(args);
}

}  // namespace weft::exec::cuda
