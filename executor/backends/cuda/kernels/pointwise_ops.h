// Applies the formulas of kernels/pointwise.def to single elements.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_POINTWISE_OPS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_POINTWISE_OPS_H_

#include "executor/backends/cuda/kernels/elementwise.h"
#include "executor/backends/cuda/kernels/portable.h"

namespace weft::exec::cuda {

template <typename C>
WEFT_DEVICE C Sigmoid(C x) {
  return Quotient(C(1), C(1) + Exp(-x));
}

// Distribution function of the standard normal, free of cancellation in the left tail.
template <typename C>
WEFT_DEVICE C Normal(C x) {
  return C(0.5) * Erfc(-x * C(0.70710678118654752440));
}

// 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)), which has no cancellation for negative u; u = sqrt(2 / pi) (x + 0.044715
// x^3).
template <typename C>
WEFT_DEVICE C TanhGate(C x) {
  return Sigmoid(C(2) * C(0.79788456080286535588) * (x + C(0.044715) * x * x * x));
}

// Clamps x to [-64, 64], which keeps powers of x finite. Outside this range the derivatives of gelu are 0 or 1. A NaN
// stays a NaN.
template <typename C>
WEFT_DEVICE C Bounded(C x) {
  return x > C(64) ? C(64) : x < C(-64) ? C(-64) : x;
}

// x are the inputs and y the outputs, in the order of the kernel's row in kernels/pointwise.def.
template <ElementwiseOp>
struct Formula;

#define FORMULA(op, body)                                \
  template <>                                            \
  struct Formula<ElementwiseOp::op> {                    \
    template <typename C>                                \
    static WEFT_DEVICE void Apply(const C* x, C* y) body \
  };

FORMULA(kGelu, { y[0] = x[0] * Normal(x[0]); })
FORMULA(kGeluTanh, { y[0] = x[0] * TanhGate(x[0]); })
FORMULA(kGeluBackward, {
  const C z = Bounded(x[1]);
  y[0] = x[0] * (Normal(z) + z * C(0.39894228040143267794) * Exp(C(-0.5) * z * z));
})
FORMULA(kGeluTanhBackward, {
  const C z = Bounded(x[1]);
  const C gate = TanhGate(z);
  const C slope = C(2 * 0.79788456080286535588) * (C(1) + C(3 * 0.044715) * z * z);
  y[0] = x[0] * (gate + z * (gate * (C(1) - gate)) * slope);
})
FORMULA(kSilu, { y[0] = x[0] * Sigmoid(x[0]); })
FORMULA(kSiluBackward, {
  const C s = Sigmoid(x[1]);
  y[0] = x[0] * (s * (C(1) + x[1] * (C(1) - s)));
})
FORMULA(kSwiglu, { y[0] = x[0] * Sigmoid(x[0]) * x[1]; })
FORMULA(kSwigluBackward, {
  const C s = Sigmoid(x[1]);
  const C silu = x[1] * s;
  y[0] = x[0] * x[2] * (s + silu * (C(1) - s));
  y[1] = x[0] * silu;
})
FORMULA(kReluSquared, {
  const C p = x[0] < C(0) ? C(0) : x[0];
  y[0] = p * p;
})
FORMULA(kReluSquaredBackward, {
  const C p = x[1] < C(0) ? C(0) : x[1];
  y[0] = C(2) * p * x[0];
})
#undef FORMULA

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_POINTWISE_OPS_H_
