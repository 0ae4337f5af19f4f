#include "executor/backends/cuda/kernels/eights.h"
#include "executor/backends/cuda/kernels/elementwise.h"
#include "executor/backends/cuda/kernels/elementwise_ops.h"

namespace weft::exec::cuda {
namespace {

constexpr int kThreads = 256;

// A thread takes kEights eights, a block's length apart, and loads all of them before it computes.
template <ElementwiseOp kOp, typename C, Type S>
struct Map {
  static constexpr int kMaxThreads = kThreads;
  using Operation = Op<kOp>;
  // Keeps about two loads of a thread in flight.
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

  // Handles the end of the array, where fewer than eight elements may be left.
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
#define POINTWISE(op, inputs, outputs, kernel, when) WEFT_OP(op)
#include "kernels/pointwise.def"
#undef POINTWISE
#undef WEFT_OP
  }
  return "no such elementwise operation";
}

}  // namespace weft::exec::cuda
