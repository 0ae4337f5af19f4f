#include "executor/backends/cuda/kernels/eights.h"
#include "executor/backends/cuda/kernels/rope.h"

namespace weft::exec::cuda {
namespace {

constexpr int kThreads = 256;
// Heads that a thread rotates with the cosines it has loaded.
constexpr int64_t kHeads = 8;

template <typename C>
struct FillTable {
  static constexpr int kMaxThreads = kThreads;
  RopeTable a;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t half = a.head_size / 2;
    const int64_t item = thread.block() * thread.count() + thread.index();
    if (item >= a.sequence * half) return;
    const int64_t position = Divide(item, half), i = item - position * half;
    const double plain = pow(a.base, -2.0 * static_cast<double>(i) / static_cast<double>(a.head_size));
    double frequency = plain;
    if (a.factor != 0) {
      constexpr double kTurn = 6.28318530717958647692;
      const double where = a.ramp_positions > 0 ? a.ramp_positions * plain / kTurn : -static_cast<double>(i);
      const double keep = Largest(0.0, Least(1.0, (where - a.ramp_low) / (a.ramp_high - a.ramp_low)));
      frequency = keep * plain + (1 - keep) * plain / a.factor;
    }
    const double angle = static_cast<double>(position) * frequency;
    C* row = static_cast<C*>(a.table) + position * a.head_size;
    row[i] = static_cast<C>(a.magnitude * cos(angle));
    row[half + i] = static_cast<C>(a.magnitude * sin(angle));
  }
};

// A thread rotates eight pairs in some heads of a row.
template <typename C, Type S>
struct Turn {
  static constexpr int kMaxThreads = kThreads;
  Rope a;
  // Per row: eights of half a head, heads, and groups of heads.
  int64_t eights, heads, groups;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t item = thread.block() * thread.count() + thread.index();
    if (item >= a.rows * groups * eights) return;
    const int64_t rest = Divide(item, eights), first = (item - rest * eights) * kBlock;
    const int64_t row = Divide(rest, groups), group = rest - row * groups;
    const int64_t half = a.head_size / 2, count = half - first;
    const bool aligned = half % kBlock == 0;
    int64_t place = row * a.columns + group * kHeads * a.head_size + first;
    // At the start of each turn of the loop, `low` and `high` hold the eights of the next head. They are loaded while
    // the head before is rotated and stored.
    Eight<C, S> low, high;
    low.Ask(a.x, place, count, aligned);
    high.Ask(a.x, place + half, count, aligned);
    const Array table{const_cast<void*>(a.table), sizeof(C) == 8 ? Type::kFp64 : Type::kFp32};
    constexpr Type kTable = sizeof(C) == 8 ? Type::kFp64 : Type::kFp32;
    C cosine[kBlock], sine[kBlock];
    const int64_t at = Modulo(row, a.sequence) * a.head_size + first;
    LoadSome<C, kTable>(table, at, count, aligned, cosine);
    LoadSome<C, kTable>(table, at + half, count, aligned, sine);
    if (a.inverse) {
#pragma unroll
      for (int i = 0; i < kBlock; ++i) sine[i] = -sine[i];
    }
    for (int64_t left = Least(heads - group * kHeads, kHeads); left > 0; --left) {
      C x[kBlock], z[kBlock], y[kBlock];
      low.Get(x);
      high.Get(z);
      const int64_t to = place;
      place += a.head_size;
      if (left > 1) {
        low.Ask(a.x, place, count, aligned);
        high.Ask(a.x, place + half, count, aligned);
      }
#pragma unroll
      for (int i = 0; i < kBlock; ++i) y[i] = x[i] * cosine[i] - z[i] * sine[i];
      StoreEight<C, S>(a.y, to, count, aligned, y);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) y[i] = z[i] * cosine[i] + x[i] * sine[i];
      StoreEight<C, S>(a.y, to + half, count, aligned, y);
    }
  }
};

}  // namespace

Outcome Launch(const RopeTable& table, void* stream) {
  const int64_t blocks = CeilDivide(table.sequence * (table.head_size / 2), kThreads);
  return table.in_double ? LaunchKernel(FillTable<double>{table}, blocks, kThreads, 0, stream)
                         : LaunchKernel(FillTable<float>{table}, blocks, kThreads, 0, stream);
}

Outcome Launch(const Rope& rope, void* stream) {
  const int64_t eights = CeilDivide(rope.head_size / 2, kBlock);
  const int64_t heads = rope.columns / rope.head_size, groups = CeilDivide(heads, kHeads);
  const int64_t blocks = CeilDivide(rope.rows * groups * eights, kThreads);
  const bool whole = rope.head_size % (2 * kBlock) == 0;
  return WithEights(rope.in_double, whole, {rope.x, rope.y}, {}, [&]<typename C, Type S>() {
    return LaunchKernel(Turn<C, S>{rope, eights, heads, groups}, blocks, kThreads, 0, stream);
  });
}

}  // namespace weft::exec::cuda
