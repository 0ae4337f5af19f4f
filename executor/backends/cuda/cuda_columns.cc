// Concatenation and slices of columns, and upsampling.
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/columns.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

absl::Status RunUpsample(const Call& call, bool sum) {
  const TensorView& small = sum ? call.out[0] : call.in[0];
  Upsample u;
  u.x = ArrayOf(call.in[0]);
  u.y = ArrayOf(call.out[0]);
  u.rows = Rows(small);
  u.columns = Columns(small);
  u.height = call.attributes().height();
  u.width = call.attributes().width();
  u.sum = sum;
  u.in_double = ComputesInDouble(call.in);
  return call.Launch(u);
}

}  // namespace

absl::Status ConcatColumns(const Call& call) {
  const int64_t of_a = Columns(call.in[0]), of_b = Columns(call.in[1]), rows = Rows(call.out[0]);
  for (int i = 0; i < 2; ++i) {
    CopyColumns copy;
    copy.x = ArrayOf(call.in[i]);
    copy.y = ArrayOf(call.out[0]);
    copy.rows = rows;
    copy.columns = copy.x_columns = i == 0 ? of_a : of_b;
    copy.y_columns = of_a + of_b;
    copy.to = i == 0 ? 0 : of_a;
    copy.in_double = ComputesInDouble(call.in);
    WEFT_RETURN_IF_ERROR(call.Launch(copy));
  }
  return absl::OkStatus();
}

absl::Status SliceColumns(const Call& call) {
  CopyColumns copy;
  copy.x = ArrayOf(call.in[0]);
  copy.y = ArrayOf(call.out[0]);
  copy.rows = Rows(call.out[0]);
  copy.columns = copy.y_columns = Columns(call.out[0]);
  copy.x_columns = Columns(call.in[0]);
  WEFT_ASSIGN_OR_RETURN(copy.from, FirstColumnOfSlice(call.step, call.in[0], call.out[0], call.context));
  copy.in_double = ComputesInDouble(call.in);
  return call.Launch(copy);
}

absl::Status UpsampleStep(const Call& call) { return RunUpsample(call, false); }
absl::Status UpsampleBackward(const Call& call) { return RunUpsample(call, true); }

}  // namespace weft::exec::cuda
