// Concatenation and slices of columns, and upsampling.
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/columns.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

absl::Status RunUpsample(const Call& call, bool sum) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 1, 1, 0b11));
  const TensorView &small = sum ? call.out[0] : call.in[0], &large = sum ? call.in[0] : call.out[0];
  const int64_t height = call.attributes().height(), width = call.attributes().width();
  constexpr int64_t kLargest = int64_t{1} << 15;
  if (height < 1 || width < 1 || height > kLargest || width > kLargest || Rows(small) % (height * width) != 0) {
    return call.Error(Rows(small), " rows are no images of ", height, " x ", width);
  }
  if (Rows(large) != 4 * Rows(small) || Columns(large) != Columns(small)) {
    return call.Error(Rows(large), " x ", Columns(large), " elements are not four times ", Rows(small), " x ",
                      Columns(small));
  }
  Upsample u;
  u.x = ArrayOf(call.in[0]);
  u.y = ArrayOf(call.out[0]);
  u.rows = Rows(small);
  u.columns = Columns(small);
  u.height = height;
  u.width = width;
  u.sum = sum;
  u.in_double = ComputesInDouble(call.in);
  return call.Launch(u);
}

}  // namespace

absl::Status ConcatColumns(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 2, 1, 0b111));
  const int64_t of_a = Columns(call.in[0]), of_b = Columns(call.in[1]), rows = Rows(call.out[0]);
  if (of_a + of_b != Columns(call.out[0]) || Elements(call.in[0]) != rows * of_a ||
      Elements(call.in[1]) != rows * of_b) {
    return call.Error("columns of ", Rows(call.in[0]), " x ", of_a, " and ", Rows(call.in[1]), " x ", of_b,
                      " are not those of ", rows, " x ", Columns(call.out[0]));
  }
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
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 1, 1, 0b11));
  const int64_t groups = std::max<int64_t>(1, call.attributes().groups());
  CopyColumns copy;
  copy.x = ArrayOf(call.in[0]);
  copy.y = ArrayOf(call.out[0]);
  copy.rows = Rows(call.out[0]);
  copy.columns = copy.y_columns = Columns(call.out[0]);
  copy.x_columns = Columns(call.in[0]);
  copy.from = call.attributes().first_column() + call.context.column_shift;
  copy.in_double = ComputesInDouble(call.in);
  if (Rows(call.in[0]) / groups != copy.rows || Rows(call.in[0]) % groups != 0) {
    return call.Error("the input's ", Rows(call.in[0]), " rows are not ", groups, " times the output's ", copy.rows);
  }
  if (copy.from < 0 || copy.from > groups * copy.x_columns - copy.columns) {
    return call.Error(copy.columns, " columns from ", copy.from, " on are not among the input's ",
                      groups * copy.x_columns);
  }
  return call.Launch(copy);
}

absl::Status UpsampleStep(const Call& call) { return RunUpsample(call, false); }
absl::Status UpsampleBackward(const Call& call) { return RunUpsample(call, true); }

}  // namespace weft::exec::cuda
