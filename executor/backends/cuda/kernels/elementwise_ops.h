// The operations of ElementwiseOp on single elements.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ELEMENTWISE_OPS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ELEMENTWISE_OPS_H_

#include "executor/backends/cuda/kernels/elementwise.h"
#include "executor/backends/cuda/kernels/pointwise_ops.h"

namespace weft::exec::cuda {

// An operation on one element; x and y are as in ElementwiseOp.
template <ElementwiseOp>
struct Op;

#define WEFT_OP(op, inputs, outputs, body)                                  \
  template <>                                                               \
  struct Op<ElementwiseOp::op> {                                            \
    static constexpr int kIn = inputs;                                      \
    static constexpr int kOut = outputs;                                    \
    template <typename C>                                                   \
    static WEFT_DEVICE void Apply(const C* x, [[maybe_unused]] C f, C* y) { \
      body                                                                  \
    }                                                                       \
  };

WEFT_OP(kAdd, 2, 1, y[0] = x[0] + x[1];)
WEFT_OP(kCast, 1, 1, y[0] = x[0];)
WEFT_OP(kFill, 0, 1, y[0] = f;)
WEFT_OP(kScale, 1, 1, y[0] = x[0] * f;)
WEFT_OP(kDifference, 2, 1, y[0] = f * (x[0] - x[1]);)
#define POINTWISE(op, inputs, outputs, kernel, when) \
  WEFT_OP(op, inputs, outputs, Formula<ElementwiseOp::op>::Apply(x, y);)
#include "kernels/pointwise.def"
#undef POINTWISE
#undef WEFT_OP

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ELEMENTWISE_OPS_H_
