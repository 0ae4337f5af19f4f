// GROUP_NORM and its backward kernels.
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/column_sums.h"
#include "executor/backends/cuda/kernels/group_norm.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

GroupNormShape ShapeOf(const Call& call, const TensorView& x) {
  GroupNormShape shape;
  shape.rows = call.attributes().sequence();
  shape.samples = Rows(x) / shape.rows;
  shape.columns = Columns(x);
  shape.groups = call.attributes().groups();
  shape.in_double = ComputesInDouble(call.in);
  shape.accumulate = call.step.accumulate();
  return shape;
}

}  // namespace

absl::Status GroupNorm(const Call& call) {
  GroupNormForward args;
  args.shape = ShapeOf(call, call.in[0]);
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
  GroupNormInput args;
  args.shape = ShapeOf(call, call.in[1]);
  args.dy = ArrayOf(call.in[0]);
  args.x = ArrayOf(call.in[1]);
  args.gamma = ArrayOf(call.in[2]);
  args.mean = ArrayOf(call.in[3]);
  args.rstd = ArrayOf(call.in[4]);
  args.dx = ArrayOf(call.out[0]);
  return call.Launch(args);
}

absl::Status GroupNormBackwardWeight(const Call& call) {
  const GroupNormShape shape = ShapeOf(call, call.in[1]);
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
