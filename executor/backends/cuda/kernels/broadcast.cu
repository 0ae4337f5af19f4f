#include "executor/backends/cuda/kernels/broadcast.h"
#include "executor/backends/cuda/kernels/pieces.h"

namespace weft::exec::cuda {
namespace {

constexpr int kEach = 2;

template <BroadcastOp kOp, typename C, Type S>
struct MapRows {
  static constexpr int kMaxThreads = kPieceThreads;
  // kScales: the op multiplies by elements of e. kShifts: the op adds elements of e.
  static constexpr bool kScales = kOp != BroadcastOp::kAdd, kShifts = kOp != BroadcastOp::kScale;
  Broadcast a;
  Pieces pieces;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const bool aligned = pieces.Aligned();
    Piece piece[kEach];
    Eight<C, S> x[kEach], scale[kEach], shift[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      piece[i] = pieces.At(thread, i, kEach);
      const auto [row, first, count] = piece[i];
      // In e, rows of scales and rows of shifts alternate.
      const int64_t e = Divide(row, a.rows_per_row) * (kScales ? 2 : 1) * a.columns + first;
      x[i].Ask(a.x, row * a.columns + first, count, aligned);
      if constexpr (kScales) scale[i].Ask(a.e, e, count, aligned);
      if constexpr (kShifts) shift[i].Ask(a.e, kScales ? e + a.columns : e, count, aligned);
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      C y[kBlock], e[kBlock];
      x[i].Get(y);
      if constexpr (kScales) {
        scale[i].Get(e);
#pragma unroll
        for (int j = 0; j < kBlock; ++j) y[j] *= C(1) + e[j];
      }
      if constexpr (kShifts) {
        shift[i].Get(e);
#pragma unroll
        for (int j = 0; j < kBlock; ++j) y[j] += e[j];
      }
      StoreEight<C, S>(a.y, piece[i].row * a.columns + piece[i].first, piece[i].count, aligned, y);
    }
  }
};

template <BroadcastOp kOp>
Outcome LaunchOp(const Broadcast& a, void* stream) {
  const Pieces pieces = Pieces::Of(a.rows, a.columns);
  return WithEights(a.in_double, a.columns % kBlock == 0, {a.x, a.e, a.y}, {}, [&]<typename C, Type S>() {
    return LaunchKernel(MapRows<kOp, C, S>{a, pieces}, pieces.Blocks(kEach), kPieceThreads, 0, stream);
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

}  // namespace weft::exec::cuda
