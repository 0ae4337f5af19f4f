// GROUP_NORM and its backward kernels.
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/column_sums.h"
#include "executor/backends/cuda/kernels/group_norm.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

absl::StatusOr<GroupNormShape> ShapeOf(const Call& call, const TensorView& x) {
  const int64_t rows = call.attributes().sequence(), groups = call.attributes().groups();
  if (rows < 1 || groups < 1 || Columns(x) < 1 || Rows(x) % rows != 0 || Columns(x) % groups != 0) {
    return call.Error(Rows(x), " x ", Columns(x), " does not divide into samples of ", rows, " rows and ", groups,
                      " groups");
  }
  GroupNormShape shape;
  shape.samples = Rows(x) / rows;
  shape.rows = rows;
  shape.columns = Columns(x);
  shape.groups = groups;
  shape.in_double = ComputesInDouble(call.in);
  shape.accumulate = call.step.accumulate();
  return shape;
}

}  // namespace

absl::Status GroupNorm(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 3, 3, 0b111111));
  GroupNormForward args;
  WEFT_ASSIGN_OR_RETURN(args.shape, ShapeOf(call, call.in[0]));
  args.epsilon = call.attributes().epsilon();
  args.x = ArrayOf(call.in[0]);
  args.gamma = ArrayOf(call.in[1]);
  args.beta = ArrayOf(call.in[2]);
  args.y = ArrayOf(call.out[0]);
  args.mean = ArrayOf(call.out[1]);
  args.rstd = ArrayOf(call.out[2]);
  return call.Launch(args);
}

absl::Status GroupNormBackward(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 5, 1, 0b111111));
  GroupNormInput args;
  WEFT_ASSIGN_OR_RETURN(args.shape, ShapeOf(call, call.in[1]));
  args.dy = ArrayOf(call.in[0]);
  args.x = ArrayOf(call.in[1]);
  args.gamma = ArrayOf(call.in[2]);
  args.mean = ArrayOf(call.in[3]);
  args.rstd = ArrayOf(call.in[4]);
  args.dx = ArrayOf(call.out[0]);
  return call.Launch(args);
}

absl::Status GroupNormBackwardWeight(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 4, 2, 0b111111));
  WEFT_ASSIGN_OR_RETURN(const GroupNormShape shape, ShapeOf(call, call.in[1]));
  ColumnSums sums;
  sums.dy = ArrayOf(call.in[0]);
  sums.x = ArrayOf(call.in[1]);
  sums.mean = ArrayOf(call.in[2]);
  sums.rstd = ArrayOf(call.in[3]);
  sums.products = ArrayOf(call.out[0]);
  sums.plain = ArrayOf(call.out[1]);
  sums.rows = shape.samples * shape.rows;
  sums.columns = shape.columns;
  sums.rows_of_statistic = shape.rows;
  sums.groups = shape.groups;
  sums.accumulate = shape.accumulate;
  sums.in_double = shape.in_double;
  WEFT_ASSIGN_OR_RETURN(sums.scratch, call.Scratch(sums.ScratchBytes()));
  return call.Launch(sums);
}

}  // namespace weft::exec::cuda
