#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/elementwise.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

template <typename C>
WEFT_DEVICE C Sigmoid(C x) {
  return Quotient(C(1), C(1) + Exp(-x));
}

// Distribution function of the standard normal, without cancellation in the left tail.
template <typename C>
WEFT_DEVICE C Normal(C x) {
  return C(0.5) * Erfc(-x * C(0.70710678118654752440));
}

// 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)), without cancellation on the left; u = sqrt(2 / pi) (x + 0.044715 x^3).
template <typename C>
WEFT_DEVICE C TanhGate(C x) {
  return Sigmoid(C(2) * C(0.79788456080286535588) * (x + C(0.044715) * x * x * x));
}

// Beyond 64 the derivatives of gelu are 0 or 1; the bound keeps powers of x finite.
template <typename C>
WEFT_DEVICE C Bounded(C x) {
  return Largest(C(-64), Least(C(64), x));
}

// What one element becomes: x and y as in ElementwiseOp.
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
WEFT_OP(kGelu, 1, 1, y[0] = x[0] * Normal(x[0]);)
WEFT_OP(kGeluTanh, 1, 1, y[0] = x[0] * TanhGate(x[0]);)
WEFT_OP(kGeluBackward, 2, 1, {
  const C z = Bounded(x[1]);
  y[0] = x[0] * (Normal(z) + z * C(0.39894228040143267794) * Exp(C(-0.5) * z * z));
})
WEFT_OP(kGeluTanhBackward, 2, 1, {
  const C z = Bounded(x[1]);
  const C gate = TanhGate(z);
  const C slope = C(2 * 0.79788456080286535588) * (C(1) + C(3 * 0.044715) * z * z);
  y[0] = x[0] * (gate + z * (gate * (C(1) - gate)) * slope);
})
WEFT_OP(kSilu, 1, 1, y[0] = x[0] * Sigmoid(x[0]);)
WEFT_OP(kSiluBackward, 2, 1, {
  const C s = Sigmoid(x[1]);
  y[0] = x[0] * (s * (C(1) + x[1] * (C(1) - s)));
})
WEFT_OP(kSwiglu, 2, 1, y[0] = x[0] * Sigmoid(x[0]) * x[1];)
WEFT_OP(kSwigluBackward, 3, 2, {
  const C s = Sigmoid(x[1]);
  const C silu = x[1] * s;
  y[0] = x[0] * x[2] * (s + silu * (C(1) - s));
  y[1] = x[0] * silu;
})
#undef WEFT_OP

template <ElementwiseOp kOp, typename C, Type S>
struct Map {
  static constexpr int kMaxThreads = kThreads;
  Elementwise a;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    using Operation = Op<kOp>;
    const int64_t first = (thread.block() * thread.count() + thread.index()) * kBlock;
    if (first >= a.elements) return;
    const int64_t count = a.elements - first;
    const C factor = static_cast<C>(a.scale == nullptr ? a.value : a.value * *a.scale);
    C in[Operation::kIn == 0 ? 1 : Operation::kIn][kBlock] = {};
    C out[Operation::kOut][kBlock];
#pragma unroll
    for (int i = 0; i < Operation::kIn; ++i) LoadSome<C, S>(a.in[i], first, count, true, in[i]);
#pragma unroll
    for (int e = 0; e < kBlock; ++e) {
      C x[3] = {}, y[2];
#pragma unroll
      for (int i = 0; i < Operation::kIn; ++i) x[i] = in[i][e];
      Operation::Apply(x, factor, y);
#pragma unroll
      for (int i = 0; i < Operation::kOut; ++i) out[i][e] = y[i];
    }
    WriteSome<C, S>(a.out[0], first, count, true, a.accumulate, out[0]);
    if constexpr (Operation::kOut > 1) StoreSome<C, S>(a.out[1], first, count, true, out[1]);
  }
};

template <ElementwiseOp kOp>
Outcome LaunchOp(const Elementwise& a, void* stream) {
  const int64_t blocks = CeilDivide(CeilDivide(a.elements, kBlock), kThreads);
  return WithTypes(a.in_double, {a.in[0], a.in[1], a.in[2], a.out[0], a.out[1]},
                   [&]<typename C, Type S>() { return LaunchKernel(Map<kOp, C, S>{a}, blocks, kThreads, 0, stream); });
}

}  // namespace

Outcome Launch(const Elementwise& elementwise, void* stream) {
  switch (elementwise.op) {
#define WEFT_OP(op)       \
  case ElementwiseOp::op: \
    return LaunchOp<ElementwiseOp::op>(elementwise, stream);
    WEFT_OP(kAdd)
    WEFT_OP(kCast)
    WEFT_OP(kFill)
    WEFT_OP(kScale)
    WEFT_OP(kDifference)
    WEFT_OP(kGelu)
    WEFT_OP(kGeluTanh)
    WEFT_OP(kGeluBackward)
    WEFT_OP(kGeluTanhBackward)
    WEFT_OP(kSilu)
    WEFT_OP(kSiluBackward)
    WEFT_OP(kSwiglu)
    WEFT_OP(kSwigluBackward)
#undef WEFT_OP
  }
  return "no such elementwise operation";
}

}  // namespace weft::cuda
