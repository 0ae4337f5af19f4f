// The formulas of kernels/pointwise.def, for the files that are compiled once per instruction set (cpu_loops.h).
#ifndef WEFT_EXECUTOR_BACKENDS_CPU_CPU_POINTWISE_H_
#define WEFT_EXECUTOR_BACKENDS_CPU_CPU_POINTWISE_H_

#include "executor/backends/cpu/cpu_loops_math.h"

namespace weft::exec::cpu {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;

// Distribution function of the standard normal, free of cancellation in the left tail.
inline double NormalDistribution(double x) { return 0.5 * ::erfc(-x * kSqrtHalf); }

// Uses erfc(z) = exp(-z^2) * t * P(t) for z >= 0 with t = 1 / (1 + 0.4 z). P is a least-squares fit at Chebyshev nodes
// for z in [0, 14]; the relative error of t * P(t) evaluated in float is below 5e-7.
inline float NormalDistribution(float x) {
  const float z = (x < 0.0f ? -x : x) * static_cast<float>(kSqrtHalf);
  const float t = 1.0f / (1.0f + 0.4f * z);
  float p = -0.02391141653060913f;
  p = p * t + 0.16743870079517365f;
  p = p * t + -0.4277476966381073f;
  p = p * t + 0.45401567220687866f;
  p = p * t + -0.2080247551202774f;
  p = p * t + 0.2319599688053131f;
  p = p * t + 0.1431877166032791f;
  p = p * t + 0.21211358904838562f;
  p = p * t + 0.225277379155159f;
  p = p * t + 0.22569088637828827f;
  const float tail = 0.5f * t * p * Exp(-0.5f * x * x);
  return x < 0.0f ? tail : 1.0f - tail;
}

constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kGeluCubic = 0.044715;

// 0.5 * (1 + tanh(u)) = 1 / (1 + exp(-2u)), which has no cancellation for negative u.
template <typename T>
inline T TanhGate(T x) {
  const T u = T(kSqrtTwoOverPi) * (x + T(kGeluCubic) * x * x * x);
  return T(1) / (T(1) + Exp(T(-2) * u));
}

// Clamps x to [-64, 64], which keeps powers of x finite. Outside this range the derivatives of gelu are 0 or 1. A NaN
// stays a NaN.
template <typename T>
inline T Bounded(T x) {
  const T z = x > T(64) ? T(64) : x;
  return z < T(-64) ? T(-64) : z;
}

template <typename T>
inline T Sigmoid(T x) {
  return T(1) / (T(1) + Exp(-x));
}

// The formula of one element: x are the inputs and y the outputs, in the order of the kernel's operands.
template <PointwiseOp>
struct Formula;

#define FORMULA(op, body)                                                          \
  template <>                                                                      \
  struct Formula<PointwiseOp::op> {                                                \
    template <typename T>                                                          \
    static inline __attribute__((always_inline)) void Apply(const T* x, T* y) body \
  };

FORMULA(kGelu, { y[0] = x[0] * NormalDistribution(x[0]); })
FORMULA(kGeluTanh, { y[0] = x[0] * TanhGate(x[0]); })
FORMULA(kGeluBackward, {
  const T z = Bounded(x[1]);
  y[0] = x[0] * (NormalDistribution(z) + z * T(kInverseSqrtTwoPi) * Exp(T(-0.5) * z * z));
})
FORMULA(kGeluTanhBackward, {
  const T z = Bounded(x[1]);
  const T gate = TanhGate(z);
  const T slope = T(2 * kSqrtTwoOverPi) * (T(1) + T(3 * kGeluCubic) * z * z);
  y[0] = x[0] * (gate + z * (gate * (T(1) - gate)) * slope);
})
FORMULA(kSilu, { y[0] = x[0] / (T(1) + Exp(-x[0])); })
FORMULA(kSiluBackward, {
  const T s = Sigmoid(x[1]);
  y[0] = x[0] * (s * (T(1) + x[1] * (T(1) - s)));
})
FORMULA(kSwiglu, { y[0] = x[0] * Sigmoid(x[0]) * x[1]; })
FORMULA(kSwigluBackward, {
  const T s = Sigmoid(x[1]);
  const T silu = x[1] * s;
  y[0] = x[0] * x[2] * (s + silu * (T(1) - s));
  y[1] = x[0] * silu;
})
FORMULA(kReluSquared, {
  const T p = x[0] < T(0) ? T(0) : x[0];
  y[0] = p * p;
})
FORMULA(kReluSquaredBackward, {
  const T p = x[1] < T(0) ? T(0) : x[1];
  y[0] = T(2) * p * x[0];
})
#undef FORMULA

template <typename T, PointwiseOp kOp, int kInputs, int kOutputs>
void PointwiseLoop(const T* const* inputs, int64_t n, T* const* outputs) {
  // Copies the pointers to local arrays, which cannot change inside the loop. Without the copies, compilers would not
  // vectorize the loop.
  const T* in[kInputs];
  T* out[kOutputs];
  for (int k = 0; k < kInputs; ++k) in[k] = inputs[k];
  for (int k = 0; k < kOutputs; ++k) out[k] = outputs[k];
  for (int64_t i = 0; i < n; ++i) {
    T x[kInputs], y[kOutputs];
    for (int k = 0; k < kInputs; ++k) x[k] = in[k][i];
    Formula<kOp>::Apply(x, y);
    for (int k = 0; k < kOutputs; ++k) out[k][i] = y[k];
  }
}

}  // namespace
}  // namespace weft::exec::cpu

#endif  // WEFT_EXECUTOR_BACKENDS_CPU_CPU_POINTWISE_H_
