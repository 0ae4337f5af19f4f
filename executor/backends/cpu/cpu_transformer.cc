// RMS_NORM and its backward kernels, ROPE.
#include <cmath>

#include "executor/backends/cpu/cpu_kernel.h"

namespace weft::exec::cpu {

absl::Status RmsNorm(const Call& call) {
  const int64_t d = Columns(call.in[0]), rows = Rows(call.in[0]);
  WithComputeType(call.in, [&]<typename T>() {
    const T* gamma = Read(call, call.in[1], 0, d, call.workspace.shared.Get<T>(d));
    ForRows(call, rows, d, [&](int64_t row, int thread) {
      T* buffer = call.workspace.thread[thread].Get<T>(2 * d);
      const T* x = Read(call, call.in[0], row * d, d, buffer);
      T* y = Target(call.out[0], row * d, false, buffer + d);
      T rstd;
      GetLoops<T>(call).rms_norm(x, gamma, d, static_cast<T>(call.attributes().epsilon()), y, &rstd);
      Write(call, call.out[0], row * d, d, false, y);
      GetLoops<T>(call).store(&rstd, StorageOf(call.out[1]), 1, At(call.out[1], row));
    });
  });
  return absl::OkStatus();
}

absl::Status RmsNormBackward(const Call& call) {
  const bool accumulate = call.step.accumulate();
  const int64_t d = Columns(call.in[0]), rows = Rows(call.in[0]);
  WithComputeType(call.in, [&]<typename T>() {
    const T* gamma = Read(call, call.in[2], 0, d, call.workspace.shared.Get<T>(d));
    ForRows(call, rows, d, [&](int64_t row, int thread) {
      T* buffer = call.workspace.thread[thread].Get<T>(3 * d);
      const T* dy = Read(call, call.in[0], row * d, d, buffer);
      const T* x = Read(call, call.in[1], row * d, d, buffer + d);
      T* dx = Target(call.out[0], row * d, accumulate, buffer + 2 * d);
      T rstd;
      GetLoops<T>(call).load(At(call.in[3], row), StorageOf(call.in[3]), 1, &rstd);
      GetLoops<T>(call).rms_norm_backward(dy, x, gamma, rstd, d, dx);
      Write(call, call.out[0], row * d, d, accumulate, dx);
    });
  });
  return absl::OkStatus();
}

// Threads split the columns, so each sum runs over ascending rows.
absl::Status RmsNormBackwardWeight(const Call& call) {
  const bool accumulate = call.step.accumulate();
  const int64_t d = Columns(call.in[0]), rows = Rows(call.in[0]);
  constexpr int64_t kColumns = 128;
  WithComputeType(call.in, [&]<typename T>() {
    const Loops<T>& loops = GetLoops<T>(call);
    const T* rstd = Read(call, call.in[2], 0, rows, call.workspace.shared.Get<T>(rows));
    call.pool().Run((d + kColumns - 1) / kColumns, [&](int64_t task, int) {
      const int64_t first = task * kColumns, count = std::min(kColumns, d - first);
      T sums[kColumns] = {};
      T buffer[2][kColumns];
      for (int64_t row = 0; row < rows; ++row) {
        const T* dy = Read(call, call.in[0], row * d + first, count, buffer[0]);
        const T* x = Read(call, call.in[1], row * d + first, count, buffer[1]);
        loops.accumulate_normalized(dy, x, T(0), rstd[row], count, sums);
      }
      T* result = Target(call.out[0], first, accumulate, sums);
      if (result != sums) std::copy(sums, sums + count, result);
      Write(call, call.out[0], first, count, accumulate, result);
    });
  });
  return absl::OkStatus();
}

namespace {

// Returns a table of cosines and sines, times the attribute `magnitude`. Row p begins at 2 * half * p and holds the
// cosines, then the sines, of the angles of pairs [0, half) at position p. Angles are in double, whatever T is.
template <typename T>
const T* RopeTable(const Call& call) {
  const StepAttributes& a = call.attributes();
  const RopeKey key{sizeof(T),    a.sequence(),  a.head_size(),      a.base(),     a.factor(),
                    a.ramp_low(), a.ramp_high(), a.ramp_positions(), a.magnitude()};
  const int64_t half = a.head_size() / 2;
  T* table = call.workspace.rope.Get<T>(2 * half * a.sequence());
  if (call.workspace.rope_key == key) return table;
  call.workspace.rope_key = key;
  double* frequencies = call.workspace.shared.Get<double>(half);
  for (int64_t i = 0; i < half; ++i) {
    const double plain = std::pow(a.base(), -2.0 * static_cast<double>(i) / static_cast<double>(a.head_size()));
    frequencies[i] = plain;
    if (a.factor() == 0) continue;
    const double where = a.ramp_positions() > 0 ? a.ramp_positions() * plain / (2 * M_PI) : -static_cast<double>(i);
    const double keep = std::clamp((where - a.ramp_low()) / (a.ramp_high() - a.ramp_low()), 0.0, 1.0);
    frequencies[i] = keep * plain + (1 - keep) * plain / a.factor();
  }
  ForRows(call, a.sequence(), 32 * half, [&](int64_t position, int) {
    T* row = table + 2 * half * position;
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * frequencies[i];
      row[i] = static_cast<T>(a.magnitude() * std::cos(angle));
      row[half + i] = static_cast<T>(a.magnitude() * std::sin(angle));
    }
  });
  return table;
}

}  // namespace

absl::Status Rope(const Call& call) {
  const StepAttributes& a = call.attributes();
  const int64_t d = Columns(call.in[0]), rows = Rows(call.in[0]), half = a.head_size() / 2;
  WithComputeType(call.in, [&]<typename T>() {
    const T* table = RopeTable<T>(call);
    ForRows(call, rows, d, [&](int64_t row, int thread) {
      T* buffer = call.workspace.thread[thread].Get<T>(2 * d);
      const T* x = Read(call, call.in[0], row * d, d, buffer);
      T* y = Target(call.out[0], row * d, false, buffer + d);
      const T* cosines = table + 2 * half * (row % a.sequence());
      for (int64_t column = 0; column < d; column += a.head_size()) {
        GetLoops<T>(call).rotate(x + column, cosines, cosines + half, a.inverse() ? T(-1) : T(1), half, y + column);
      }
      Write(call, call.out[0], row * d, d, false, y);
    });
  });
  return absl::OkStatus();
}

}  // namespace weft::exec::cpu
