// ADD, CAST, FILL, SCALE, the kernels of kernels/pointwise.def, BIAS_ADD and the kernels with one row per sample.
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/broadcast.h"
#include "executor/backends/cuda/kernels/elementwise.h"

namespace weft::exec::cuda {
namespace {

// Returns a launch on all inputs and outputs.
Elementwise ElementwiseOf(const Call& call, ElementwiseOp op) {
  Elementwise e;
  e.op = op;
  for (size_t i = 0; i < call.in.size(); ++i) e.in[i] = ArrayOf(call.in[i]);
  for (size_t i = 0; i < call.out.size(); ++i) e.out[i] = ArrayOf(call.out[i]);
  e.elements = Elements(call.out[0]);
  e.in_double = ComputesInDouble(call.in);
  return e;
}

absl::Status RunBroadcast(const Call& call, BroadcastOp op, int64_t rows_per_row) {
  Broadcast b;
  b.op = op;
  b.x = ArrayOf(call.in[0]);
  b.e = ArrayOf(call.in[1]);
  b.y = ArrayOf(call.out[0]);
  b.rows = Rows(call.out[0]);
  b.columns = Columns(call.out[0]);
  b.rows_per_row = rows_per_row;
  b.in_double = ComputesInDouble(call.in);
  return call.Launch(b);
}

}  // namespace

absl::Status AddTensors(const Call& call) {
  if (call.in[0].dtype == EXACT192) return AddExact(call);
  Elementwise e = ElementwiseOf(call, ElementwiseOp::kAdd);
  e.accumulate = call.step.accumulate();
  return call.Launch(e);
}

// A cast to the same type is a copy. If it is a copy between device and host, it can run at the same time as kernels.
absl::Status Cast(const Call& call) {
  const TensorView &x = call.in[0], &y = call.out[0];
  if (x.dtype != y.dtype) return call.Launch(ElementwiseOf(call, ElementwiseOp::kCast));
  const int64_t bytes = Elements(x) * ElementBytes(TypeOf(x));
  if (call.measuring || bytes == 0 || x.data == y.data) return absl::OkStatus();
  return call.resources.device->Copy(call.context.stream, y.data, x.data, bytes);
}

absl::Status Fill(const Call& call) {
  if (call.out[0].dtype == EXACT192) return FillExact(call);
  Elementwise e = ElementwiseOf(call, ElementwiseOp::kFill);
  e.value = call.attributes().value();
  e.in_double = true;
  return call.Launch(e);
}

absl::Status ScaleTensor(const Call& call) {
  Elementwise e;
  e.op = ElementwiseOp::kScale;
  e.in[0] = ArrayOf(call.in[1]);
  e.out[0] = ArrayOf(call.out[0]);
  e.elements = Elements(call.out[0]);
  e.in_double = ComputesInDouble(call.in.subspan(1));
  e.scale = static_cast<const double*>(call.in[0].data) + 1;
  return call.Launch(e);
}

absl::Status RunPointwise(const Call& call) {
  const StepAttributes& a = call.attributes();
#define POINTWISE(op, inputs, outputs, of, when) \
  if (call.step.kernel() == of && (when)) return call.Launch(ElementwiseOf(call, ElementwiseOp::op));
#include "kernels/pointwise.def"
#undef POINTWISE
  return call.Error("kernels/pointwise.def has no formula of ", Kernel_Name(call.step.kernel()));
}

absl::Status SquaredErrorBackward(const Call& call) {
  Elementwise e;
  e.op = ElementwiseOp::kDifference;
  for (int i = 0; i < 2; ++i) e.in[i] = ArrayOf(call.in[i]);
  e.out[0] = ArrayOf(call.out[0]);
  e.elements = Elements(call.out[0]);
  e.in_double = ComputesInDouble(call.in.subspan(0, 2));
  e.value = 2 * call.attributes().loss_weight();
  e.scale = call.in.size() == 3 ? static_cast<const double*>(call.in[2].data) : nullptr;
  return call.Launch(e);
}

absl::Status BiasAdd(const Call& call) {
  // All rows share the one row of the bias.
  return RunBroadcast(call, BroadcastOp::kAdd, std::max<int64_t>(1, Rows(call.out[0])));
}

absl::Status AddPerSample(const Call& call) {
  return RunBroadcast(call, BroadcastOp::kAdd, call.attributes().sequence());
}
absl::Status ScaleShift(const Call& call) {
  return RunBroadcast(call, BroadcastOp::kScaleShift, call.attributes().sequence());
}
absl::Status ScaleShiftBackward(const Call& call) {
  return RunBroadcast(call, BroadcastOp::kScale, call.attributes().sequence());
}

}  // namespace weft::exec::cuda
