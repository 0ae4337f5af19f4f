#include "executor/backends/cuda/kernels/eights.h"
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

// Beyond 64 the derivatives of gelu are 0 or 1; the bound keeps powers of x finite. NaN stays.
template <typename C>
WEFT_DEVICE C Bounded(C x) {
  return x > C(64) ? C(64) : x < C(-64) ? C(-64) : x;
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

// A thread takes kEights eights, a block's length apart, and asks for all of them before it computes.
template <ElementwiseOp kOp, typename C, Type S>
struct Map {
  static constexpr int kMaxThreads = kThreads;
  using Operation = Op<kOp>;
  // So that about two loads of a thread are on their way.
  static constexpr int kEights = S == Type::kNone || Operation::kIn > 1 ? 1 : 2;
  Elementwise a;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t first = (thread.block() * kEights * kThreads + thread.index()) * kBlock;
    const C factor = static_cast<C>(a.scale == nullptr ? a.value : a.value * *a.scale);
    if (S == Type::kNone) {
      if (first < a.elements) Eights(first, factor);
    } else if (first + (kEights - 1) * kThreads * kBlock + kBlock <= a.elements) {
      Eights(first, factor);
    } else {
      for (int k = 0; k < kEights; ++k) {
        const int64_t place = first + k * kThreads * kBlock;
        Singles(place, Least<int64_t>(a.elements, place + kBlock), factor);
      }
    }
  }

  // The end of the array, where there may be less than an eight.
  WEFT_DEVICE void Singles(int64_t first, int64_t end, C factor) const {
#pragma unroll 1
    for (int64_t e = first; e < end; ++e) {
      C x[3] = {}, y[2];
#pragma unroll
      for (int i = 0; i < Operation::kIn; ++i) x[i] = Load<C, S>(a.in[i], e);
      Operation::Apply(x, factor, y);
      if (a.accumulate) y[0] = Load<C, S>(a.out[0], e) + y[0];
#pragma unroll
      for (int i = 0; i < Operation::kOut; ++i) Store<C, S>(a.out[i], e, y[i]);
    }
  }

  WEFT_DEVICE void Eights(int64_t first, C factor) const {
    constexpr int kIn = Operation::kIn == 0 ? 1 : Operation::kIn;
    Eight<C, S> in[kEights][kIn], old[kEights];
    const int64_t count = a.elements - first;
#pragma unroll
    for (int k = 0; k < kEights; ++k) {
      const int64_t place = first + k * kThreads * kBlock;
#pragma unroll
      for (int i = 0; i < Operation::kIn; ++i) in[k][i].Ask(a.in[i], place, count, true);
      if (a.accumulate) old[k].Ask(a.out[0], place, count, true);
    }
#pragma unroll
    for (int k = 0; k < kEights; ++k) {
      C x[kIn][kBlock] = {}, out[Operation::kOut][kBlock];
#pragma unroll
      for (int i = 0; i < Operation::kIn; ++i) in[k][i].Get(x[i]);
#pragma unroll
      for (int e = 0; e < kBlock; ++e) {
        C of[3] = {}, y[2];
#pragma unroll
        for (int i = 0; i < Operation::kIn; ++i) of[i] = x[i][e];
        Operation::Apply(of, factor, y);
#pragma unroll
        for (int i = 0; i < Operation::kOut; ++i) out[i][e] = y[i];
      }
      if (a.accumulate) {
        C before[kBlock];
        old[k].Get(before);
#pragma unroll
        for (int e = 0; e < kBlock; ++e) out[0][e] = before[e] + out[0][e];
      }
      const int64_t place = first + k * kThreads * kBlock;
      StoreEight<C, S>(a.out[0], place, count, true, out[0]);
      if constexpr (Operation::kOut > 1) StoreEight<C, S>(a.out[1], place, count, true, out[1]);
    }
  }
};

template <ElementwiseOp kOp>
Outcome LaunchOp(const Elementwise& a, void* stream) {
  return WithEights(a.in_double, true, {a.in[0], a.in[1], a.in[2], a.out[0], a.out[1]}, {}, [&]<typename C, Type S>() {
    const int64_t blocks = CeilDivide(a.elements, int64_t{kBlock} * kThreads * Map<kOp, C, S>::kEights);
    return LaunchKernel(Map<kOp, C, S>{a}, blocks, kThreads, 0, stream);
  });
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
