#include "executor/backends/cuda/kernels/columns.h"
#include "executor/backends/cuda/kernels/pieces.h"

namespace weft::exec::cuda {
namespace {

constexpr int kEach = 2;

// If S is not kNone, no group of eight columns crosses from one block of x to the next, and groups are aligned in x and
// y.
template <typename C, Type S>
struct Copy {
  static constexpr int kMaxThreads = kPieceThreads;
  CopyColumns a;
  Pieces pieces;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    Piece piece[kEach];
    Eight<C, S> x[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      piece[i] = pieces.At(thread, i, kEach);
      const auto [row, first, count] = piece[i];
      if constexpr (S != Type::kNone) {
        x[i].Ask(a.x, Element(row, a.from + first), count, true);
      } else {
#pragma unroll
        for (int j = 0; j < kBlock; ++j) x[i].x[j] = j < count ? Load<C>(a.x, Element(row, a.from + first + j)) : C(0);
      }
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      C y[kBlock];
      x[i].Get(y);
      StoreEight<C, S>(a.y, piece[i].row * a.y_columns + a.to + piece[i].first, piece[i].count, false, y);
    }
  }

  // Returns the index of an element of x. The blocks of x count as lying side by side, so `column` may be in any block.
  WEFT_DEVICE int64_t Element(int64_t row, int64_t column) const {
    const int64_t group = Divide(column, a.x_columns);
    return (group * a.rows + row) * a.x_columns + column - group * a.x_columns;
  }
};

template <typename C, Type S>
struct Four {
  static constexpr int kMaxThreads = kPieceThreads;
  Upsample a;
  Pieces pieces;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const auto [row, first, count] = pieces.At(thread, 0, 1);
    const bool aligned = pieces.Aligned();
    const int64_t line = Divide(row, a.width), x = row - line * a.width;
    const int64_t sample = Divide(line, a.height), y = line - sample * a.height;
    const int64_t upper_left = ((sample * 2 * a.height + 2 * y) * 2 * a.width + 2 * x) * a.columns + first;
    const auto place = [&](int i) { return upper_left + (i / 2 * 2 * a.width + i % 2) * a.columns; };
    C values[kBlock];
    if (!a.sum) {
      Eight<C, S> one;
      one.Ask(a.x, row * a.columns + first, count, aligned);
      one.Get(values);
#pragma unroll
      for (int i = 0; i < 4; ++i) StoreEight<C, S>(a.y, place(i), count, aligned, values);
      return;
    }
    Eight<C, S> four[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) four[i].Ask(a.x, place(i), count, aligned);
    C total[kBlock] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      four[i].Get(values);
#pragma unroll
      for (int j = 0; j < kBlock; ++j) total[j] += values[j];
    }
    StoreEight<C, S>(a.y, row * a.columns + first, count, aligned, total);
  }
};

}  // namespace

Outcome Launch(const CopyColumns& copy, void* stream) {
  const Pieces pieces = Pieces::Of(copy.rows, copy.columns);
  const bool aligned = copy.x_columns % kBlock == 0 && copy.y_columns % kBlock == 0 && copy.from % kBlock == 0 &&
                       copy.to % kBlock == 0 && copy.columns % kBlock == 0;
  return WithEights(copy.in_double, aligned, {copy.x, copy.y}, {}, [&]<typename C, Type S>() {
    return LaunchKernel(Copy<C, S>{copy, pieces}, pieces.Blocks(kEach), kPieceThreads, 0, stream);
  });
}

Outcome Launch(const Upsample& upsample, void* stream) {
  const Pieces pieces = Pieces::Of(upsample.rows, upsample.columns);
  const bool whole = upsample.columns % kBlock == 0;
  return WithEights(upsample.in_double, whole, {upsample.x, upsample.y}, {}, [&]<typename C, Type S>() {
    return LaunchKernel(Four<C, S>{upsample, pieces}, pieces.Blocks(1), kPieceThreads, 0, stream);
  });
}

}  // namespace weft::exec::cuda
