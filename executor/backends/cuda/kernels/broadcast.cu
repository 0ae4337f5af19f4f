#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/broadcast.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

template <BroadcastOp kOp, typename C, Type S>
struct MapRows {
  static constexpr int kMaxThreads = kThreads;
  Broadcast a;
  // Eights of a row.
  int64_t per_row;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t item = thread.block() * thread.count() + thread.index();
    if (item >= a.rows * per_row) return;
    const int64_t row = Divide(item, per_row), first = (item - row * per_row) * kBlock;
    const int64_t count = a.columns - first;
    const bool aligned = a.columns % kBlock == 0;
    const int64_t group = Divide(row, a.rows_per_row);
    C x[kBlock], e[kBlock];
    LoadSome<C, S>(a.x, row * a.columns + first, count, aligned, x);
    if constexpr (kOp == BroadcastOp::kAdd) {
      LoadSome<C, S>(a.e, group * a.columns + first, count, aligned, e);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) x[i] += e[i];
    } else {
      LoadSome<C, S>(a.e, group * 2 * a.columns + first, count, aligned, e);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) x[i] *= C(1) + e[i];
    }
    if constexpr (kOp == BroadcastOp::kScaleShift) {
      LoadSome<C, S>(a.e, (group * 2 + 1) * a.columns + first, count, aligned, e);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) x[i] += e[i];
    }
    StoreSome<C, S>(a.y, row * a.columns + first, count, aligned, x);
  }
};

template <BroadcastOp kOp>
Outcome LaunchOp(const Broadcast& a, void* stream) {
  const int64_t per_row = CeilDivide(a.columns, kBlock);
  return WithTypes(a.in_double, {a.x, a.e, a.y}, [&]<typename C, Type S>() {
    return LaunchKernel(MapRows<kOp, C, S>{a, per_row}, CeilDivide(a.rows * per_row, kThreads), kThreads, 0, stream);
  });
}

}  // namespace

Outcome Launch(const Broadcast& broadcast, void* stream) {
  switch (broadcast.op) {
    case BroadcastOp::kAdd:
      return LaunchOp<BroadcastOp::kAdd>(broadcast, stream);
    case BroadcastOp::kScaleShift:
      return LaunchOp<BroadcastOp::kScaleShift>(broadcast, stream);
    case BroadcastOp::kScale:
      return LaunchOp<BroadcastOp::kScale>(broadcast, stream);
  }
  return "no such operation with rows";
}

}  // namespace weft::cuda
