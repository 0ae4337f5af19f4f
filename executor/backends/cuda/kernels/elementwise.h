// Kernels whose elements are independent of each other.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ELEMENTWISE_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ELEMENTWISE_H_

#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

enum class ElementwiseOp {
  // y = a + b
  kAdd,
  // y = x
  kCast,
  // y = factor
  kFill,
  // y = factor * x
  kScale,
  // y = factor (a - b)
  kDifference,
#define POINTWISE(op, inputs, outputs, kernel, when) op,
#include "kernels/pointwise.def"
#undef POINTWISE
};

struct Elementwise {
  ElementwiseOp op = ElementwiseOp::kAdd;
  // The inputs and outputs that the operation has, each with `elements` elements. An output may be an input of the same
  // type.
  Array in[3];
  Array out[2];
  int64_t elements = 0;
  // If true, the result is added to out[0].
  bool accumulate = false;
  bool in_double = false;
  // factor = value, times *scale on the device if `scale` is not null. It is computed in double, then rounded to the
  // compute type.
  double value = 1;
  const double* scale = nullptr;
};
Outcome Launch(const Elementwise& elementwise, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ELEMENTWISE_H_
