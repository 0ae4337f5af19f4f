// ADD, CAST, FILL, SCALE, the kernels of kernels/pointwise.def, BIAS_ADD and the kernels with one row per sample.
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/broadcast.h"
#include "executor/backends/cuda/kernels/elementwise.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

// Returns a launch on all inputs, which must have as many elements as the outputs.
Elementwise Of(const Call& call, ElementwiseOp op) {
  Elementwise e;
  e.op = op;
  for (size_t i = 0; i < call.in.size(); ++i) e.in[i] = ArrayOf(call.in[i]);
  for (size_t i = 0; i < call.out.size(); ++i) e.out[i] = ArrayOf(call.out[i]);
  e.elements = Elements(call.out[0]);
  e.in_double = ComputesInDouble(call.in);
  return e;
}

// Returns InvalidArgument unless all tensors have as many elements as output 0.
absl::Status CheckSameSize(const Call& call) {
  const int64_t elements = Elements(call.out[0]);
  for (const auto& views : {call.in, call.out}) {
    for (const TensorView& view : views) {
      if (Elements(view) != elements) {
        return call.Error("tensors of ", Elements(view), " and ", elements, " elements; they must have as many");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status RunMap(const Call& call, ElementwiseOp op, size_t inputs, size_t outputs) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, inputs, outputs, (1u << (inputs + outputs)) - 1));
  WEFT_RETURN_IF_ERROR(CheckSameSize(call));
  return call.Launch(Of(call, op));
}

// Returns an error unless `rows` are whole samples of the step's `sequence` rows each.
absl::Status CheckSamples(const Call& call, int64_t rows) {
  const int64_t sequence = call.attributes().sequence();
  if (sequence >= 1 && rows % sequence == 0) return absl::OkStatus();
  return call.Error(rows, " rows do not divide into samples of ", sequence, " rows");
}

absl::Status RunBroadcast(const Call& call, BroadcastOp op, int64_t rows_per_row, int64_t rows_of_e,
                          int64_t columns_of_e) {
  if (Rows(call.in[0]) != Rows(call.out[0]) || Columns(call.in[0]) != Columns(call.out[0]) ||
      Elements(call.in[1]) != rows_of_e * columns_of_e) {
    return call.Error("input 0 must be of the shape of the output, and input 1 have ", rows_of_e, " x ", columns_of_e,
                      " elements, given ", Elements(call.in[1]));
  }
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

absl::Status RunPerSample(const Call& call, BroadcastOp op, int64_t blocks_of_columns) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 2, 1, 0b111));
  const int64_t rows = Rows(call.out[0]), sequence = call.attributes().sequence();
  WEFT_RETURN_IF_ERROR(CheckSamples(call, rows));
  return RunBroadcast(call, op, sequence, rows / sequence, blocks_of_columns * Columns(call.out[0]));
}

}  // namespace

absl::Status AddTensors(const Call& call) {
  if (!call.in.empty() && call.in[0].dtype == EXACT192) return AddExact(call);
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 2, 1, 0b111));
  WEFT_RETURN_IF_ERROR(CheckSameSize(call));
  Elementwise e = Of(call, ElementwiseOp::kAdd);
  e.accumulate = call.step.accumulate();
  return call.Launch(e);
}

// A cast to the same type is a copy. Between device and host a copy runs beside the kernels (rule P7).
absl::Status Cast(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 1, 1, 0b11));
  WEFT_RETURN_IF_ERROR(CheckSameSize(call));
  const TensorView &x = call.in[0], &y = call.out[0];
  if (x.dtype != y.dtype) return call.Launch(Of(call, ElementwiseOp::kCast));
  const int64_t bytes = Elements(x) * ElementBytes(TypeOf(x));
  if (call.measuring || bytes == 0 || x.data == y.data) return absl::OkStatus();
  return call.resources.device->Copy(call.context.stream, y.data, x.data, bytes);
}

absl::Status Fill(const Call& call) {
  if (call.out.size() == 1 && call.out[0].dtype == EXACT192) return FillExact(call);
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 0, 1, 0b1));
  Elementwise e = Of(call, ElementwiseOp::kFill);
  e.value = call.attributes().value();
  e.in_double = true;
  return call.Launch(e);
}

absl::Status ScaleTensor(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 2, 1, 0b111));
  if (call.in[0].dtype != FP64 || Elements(call.in[0]) < 2) {
    return call.Error("input 0 of SCALE is ", DType_Name(call.in[0].dtype), " of ", Elements(call.in[0]),
                      " elements; it must be FP64 of 2");
  }
  if (Elements(call.in[1]) != Elements(call.out[0])) {
    return call.Error("tensors of ", Elements(call.in[1]), " and ", Elements(call.out[0]),
                      " elements; they must have as many");
  }
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
  if (call.step.kernel() == of && (when)) return RunMap(call, ElementwiseOp::op, inputs, outputs);
#include "kernels/pointwise.def"
#undef POINTWISE
  return call.Error("kernels/pointwise.def has no formula of ", Kernel_Name(call.step.kernel()));
}

absl::Status SquaredErrorBackward(const Call& call) {
  const size_t inputs = call.in.size() == 3 ? 3 : 2;
  WEFT_RETURN_IF_ERROR(CheckTensors(call, inputs, 1, (2u << inputs) - 1));
  if (inputs == 3 && (call.in[2].dtype != FP64 || Elements(call.in[2]) < 1)) {
    return call.Error("the scale is ", DType_Name(call.in[2].dtype), "; it must be FP64");
  }
  Elementwise e;
  e.op = ElementwiseOp::kDifference;
  for (int i = 0; i < 2; ++i) {
    e.in[i] = ArrayOf(call.in[i]);
    if (Elements(call.in[i]) != Elements(call.out[0])) {
      return call.Error("tensors of ", Elements(call.in[i]), " and ", Elements(call.out[0]),
                        " elements; they must have as many");
    }
  }
  e.out[0] = ArrayOf(call.out[0]);
  e.elements = Elements(call.out[0]);
  e.in_double = ComputesInDouble(call.in.subspan(0, 2));
  e.value = 2 * call.attributes().loss_weight();
  e.scale = inputs == 3 ? static_cast<const double*>(call.in[2].data) : nullptr;
  return call.Launch(e);
}

absl::Status BiasAdd(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTensors(call, 2, 1, 0b111));
  // All rows share the one row of the bias.
  return RunBroadcast(call, BroadcastOp::kAdd, std::max<int64_t>(1, Rows(call.out[0])), 1, Columns(call.out[0]));
}

absl::Status AddPerSample(const Call& call) { return RunPerSample(call, BroadcastOp::kAdd, 1); }
absl::Status ScaleShift(const Call& call) { return RunPerSample(call, BroadcastOp::kScaleShift, 2); }
absl::Status ScaleShiftBackward(const Call& call) { return RunPerSample(call, BroadcastOp::kScale, 2); }

}  // namespace weft::exec::cuda
