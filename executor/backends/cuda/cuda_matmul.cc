// MATMUL.
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/elementwise.h"

namespace weft::exec::cuda {

absl::Status MatMul(const Call& call) {
  const bool has_bias = call.in.size() == 3;
  const StepAttributes& attributes = call.attributes();
  const TensorView &a = call.in[0], &b = call.in[1], &y = call.out[0];
  MatmulShape shape;
  shape.m = Rows(y);
  shape.n = Columns(y);
  shape.k = attributes.transpose_a() ? Rows(a) : Columns(a);
  shape.transpose_a = attributes.transpose_a();
  shape.transpose_b = attributes.transpose_b();
  if (a.dtype != b.dtype) {
    return call.Error("MATMUL of ", DType_Name(a.dtype), " and ", DType_Name(b.dtype),
                      "; the CUDA backend multiplies matrices of one type; cast one of them");
  }
  shape.a = {TypeOf(a), shape.transpose_a ? shape.m : shape.k, 0};
  shape.b = {TypeOf(b), shape.transpose_b ? shape.k : shape.n, 0};
  shape.y = {TypeOf(y), shape.n, 0};
  if (has_bias) shape.bias = TypeOf(call.in[2]);
  shape.accumulate = call.step.accumulate();
  shape.tf32 = attributes.tf32();
  if (shape.m == 0 || shape.n == 0) return absl::OkStatus();
  if (call.measuring) return call.Prepare(shape);
  return call.resources.libraries.matmul->Run(shape, {a.data, b.data, has_bias ? call.in[2].data : nullptr, y.data},
                                              call.stream());
}

}  // namespace weft::exec::cuda
