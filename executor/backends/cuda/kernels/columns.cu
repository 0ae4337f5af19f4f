#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/columns.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

template <typename C, Type S>
struct Copy {
  static constexpr int kMaxThreads = kThreads;
  CopyColumns a;
  int64_t per_row;
  // Eights of columns do not cross from one block of x to the next, and are aligned in x and y.
  bool aligned;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t item = thread.block() * thread.count() + thread.index();
    if (item >= a.rows * per_row) return;
    const int64_t row = Divide(item, per_row), first = (item - row * per_row) * kBlock;
    const int64_t count = Least<int64_t>(kBlock, a.columns - first), to = row * a.y_columns + a.to + first;
    const int64_t column = a.from + first, group = Divide(column, a.x_columns);
    C x[kBlock];
    if (aligned) {
      LoadSome<C, S>(a.x, (group * a.rows + row) * a.x_columns + column - group * a.x_columns, count, true, x);
    } else {
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        const int64_t block = Divide(column + i, a.x_columns);
        x[i] =
            i < count ? Load<C, S>(a.x, (block * a.rows + row) * a.x_columns + column + i - block * a.x_columns) : C(0);
      }
    }
    StoreSome<C, S>(a.y, to, count, aligned, x);
  }
};

template <typename C, Type S>
struct Four {
  static constexpr int kMaxThreads = kThreads;
  Upsample a;
  int64_t per_row;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t item = thread.block() * thread.count() + thread.index();
    if (item >= a.rows * per_row) return;
    const int64_t row = Divide(item, per_row), first = (item - row * per_row) * kBlock;
    const int64_t count = a.columns - first;
    const bool aligned = a.columns % kBlock == 0;
    const int64_t line = Divide(row, a.width), x = row - line * a.width;
    const int64_t sample = Divide(line, a.height), y = line - sample * a.height;
    const int64_t upper_left = ((sample * 2 * a.height + 2 * y) * 2 * a.width + 2 * x) * a.columns + first;
    const auto place = [&](int i) { return upper_left + (i / 2 * 2 * a.width + i % 2) * a.columns; };
    C values[kBlock];
    if (!a.sum) {
      LoadSome<C, S>(a.x, row * a.columns + first, count, aligned, values);
#pragma unroll
      for (int i = 0; i < 4; ++i) StoreSome<C, S>(a.y, place(i), count, aligned, values);
      return;
    }
    C total[kBlock] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      LoadSome<C, S>(a.x, place(i), count, aligned, values);
#pragma unroll
      for (int j = 0; j < kBlock; ++j) total[j] += values[j];
    }
    StoreSome<C, S>(a.y, row * a.columns + first, count, aligned, total);
  }
};

}  // namespace

Outcome Launch(const CopyColumns& copy, void* stream) {
  const int64_t per_row = CeilDivide(copy.columns, kBlock);
  const bool aligned = copy.x_columns % kBlock == 0 && copy.y_columns % kBlock == 0 && copy.from % kBlock == 0 &&
                       copy.to % kBlock == 0 && copy.columns % kBlock == 0;
  return WithTypes(copy.in_double, {copy.x, copy.y}, [&]<typename C, Type S>() {
    return LaunchKernel(Copy<C, S>{copy, per_row, aligned}, CeilDivide(copy.rows * per_row, kThreads), kThreads, 0,
                        stream);
  });
}

Outcome Launch(const Upsample& upsample, void* stream) {
  const int64_t per_row = CeilDivide(upsample.columns, kBlock);
  return WithTypes(upsample.in_double, {upsample.x, upsample.y}, [&]<typename C, Type S>() {
    return LaunchKernel(Four<C, S>{upsample, per_row}, CeilDivide(upsample.rows * per_row, kThreads), kThreads, 0,
                        stream);
  });
}

}  // namespace weft::cuda
