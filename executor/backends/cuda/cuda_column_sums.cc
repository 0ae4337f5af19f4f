// Gradients that are sums over rows: gradients of biases, of the weights of norms, and of vectors added to all rows of
// a sample.
#include "executor/backends/cuda/cuda_arguments.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

// Returns a launch that sums all rows of input 0. The caller sets the output.
ColumnSums ColumnSumsOf(const Call& call) {
  ColumnSums sums;
  sums.dy = ArrayOf(call.in[0]);
  sums.rows = Rows(call.in[0]);
  sums.columns = Columns(call.in[0]);
  sums.accumulate = call.step.accumulate();
  sums.in_double = ComputesInDouble(call.in);
  return sums;
}

// Returns a launch that sums the rows of each sample separately. A sample is a segment of `sequence` rows.
ColumnSums SampleSums(const Call& call, int64_t blocks_of_columns) {
  ColumnSums sums = ColumnSumsOf(call);
  const int64_t sequence = call.attributes().sequence();
  sums.segments = sums.rows / sequence;
  sums.rows = sequence;
  sums.stride = blocks_of_columns * sums.columns;
  sums.accumulate = false;
  return sums;
}

absl::Status Sum(const Call& call, ColumnSums sums) {
  WEFT_ASSIGN_OR_RETURN(sums.scratch, call.Scratch(sums.ScratchBytes()));
  return call.Launch(sums);
}

}  // namespace

ColumnSums BiasGradientArguments(const Call& call) {
  ColumnSums sums = ColumnSumsOf(call);
  sums.plain = ArrayOf(call.out[0]);
  return sums;
}

ColumnSums NormWeightArguments(const Call& call) {
  const bool centered = call.step.kernel() == LAYER_NORM_BACKWARD_WEIGHT;
  ColumnSums sums = ColumnSumsOf(call);
  sums.x = ArrayOf(call.in[1]);
  if (centered) sums.mean = ArrayOf(call.in[2]);
  sums.rstd = ArrayOf(call.in[centered ? 3 : 2]);
  sums.products = ArrayOf(call.out[0]);
  if (centered) sums.plain = ArrayOf(call.out[1]);
  return sums;
}

absl::Status BiasGradient(const Call& call) { return Sum(call, BiasGradientArguments(call)); }

absl::Status NormWeightGradient(const Call& call) { return Sum(call, NormWeightArguments(call)); }

absl::Status SumPerSample(const Call& call) {
  ColumnSums sums = SampleSums(call, 1);
  sums.plain = ArrayOf(call.out[0]);
  return Sum(call, sums);
}

absl::Status ScaleShiftBackwardSample(const Call& call) {
  ColumnSums sums = SampleSums(call, 2);
  sums.x = ArrayOf(call.in[1]);
  sums.products = ArrayOf(call.out[0]);
  sums.plain = ArrayOf(call.out[0]);
  sums.plain_offset = sums.columns;
  return Sum(call, sums);
}

}  // namespace weft::exec::cuda
