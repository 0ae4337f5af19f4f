// BIAS_ADD, and norms of rows whose columns are split over ranks: statistics of a part, statistics of the whole row
// from all parts, and the kernels that use them.
#include <cmath>

#include "executor/backends/cpu/cpu_kernel.h"

namespace weft::exec::cpu {
namespace {

// Returns the sum of f(0) .. f(n - 1). It sums in fixed lanes and adds the lanes in order, so compilers may vectorize
// the loop without changing a bit.
template <typename T, typename F>
T LaneSum(int64_t n, F f) {
  constexpr int kLanes = 16;
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += f(i + lane);
  }
  for (int lane = 0; i + lane < n; ++lane) lanes[lane] += f(i + lane);
  T sum = 0;
  for (T lane : lanes) sum += lane;
  return sum;
}

template <typename T>
T ReadOne(const Call& call, const TensorView& view, int64_t element) {
  T buffer;
  return *Read(call, view, element, 1, &buffer);
}

template <typename T>
void WriteOne(const Call& call, const TensorView& view, int64_t element, T value) {
  GetLoops<T>(call).store(&value, StorageOf(view), 1, At(view, element));
}

}  // namespace

absl::Status BiasAdd(const Call& call) {
  const int64_t d = Columns(call.in[0]);
  WithComputeType(call.in, [&]<typename T>() {
    const T* bias = Read(call, call.in[1], 0, d, call.workspace.shared.Get<T>(d));
    ForRows(call, Rows(call.in[0]), d, [&](int64_t row, int thread) {
      T* buffer = call.workspace.thread[thread].Get<T>(2 * d);
      const T* x = Read(call, call.in[0], row * d, d, buffer);
      T* y = Target(call.out[0], row * d, false, buffer + d);
      GetLoops<T>(call).add(x, bias, d, y);
      Write(call, call.out[0], row * d, d, false, y);
    });
  });
  return absl::OkStatus();
}

absl::Status NormPartial(const Call& call) {
  const bool squares_only = call.attributes().root_mean_square();
  const int64_t d = Columns(call.in[0]), rows = Rows(call.in[0]);
  WithComputeType(call.in, [&]<typename T>() {
    ForRows(call, rows, d, [&](int64_t row, int thread) {
      const T* x = Read(call, call.in[0], row * d, d, call.workspace.thread[thread].Get<T>(d));
      if (squares_only) {
        WriteOne(call, call.out[0], row, LaneSum<T>(d, [&](int64_t i) { return x[i] * x[i]; }));
        return;
      }
      const T mean = LaneSum<T>(d, [&](int64_t i) { return x[i]; }) / static_cast<T>(d);
      WriteOne(call, call.out[0], 2 * row, mean);
      WriteOne(call, call.out[0], 2 * row + 1, LaneSum<T>(d, [&](int64_t i) { return (x[i] - mean) * (x[i] - mean); }));
    });
  });
  return absl::OkStatus();
}

// Combines equal parts with means m_i and sums of squared differences s_i. The mean is the mean of the m_i. The sum of
// squared differences is Σ s_i + (columns of a part) Σ (m_i - mean)² (Chan, Golub, LeVeque 1979).
absl::Status NormCombine(const Call& call) {
  const bool squares_only = call.attributes().root_mean_square();
  const TensorView& parts = call.in[0];
  const TensorView& rstd_out = call.out[squares_only ? 0 : 1];
  const int64_t rows = Elements(rstd_out);
  const int64_t count = Rows(parts) / rows;
  WithComputeType(call.in, [&]<typename T>() {
    const T whole = static_cast<T>(call.attributes().whole_columns());
    const T epsilon = static_cast<T>(call.attributes().epsilon());
    ForRows(call, rows, 2 * count, [&](int64_t row, int) {
      T squares = 0;
      if (squares_only) {
        for (int64_t part = 0; part < count; ++part) squares += ReadOne<T>(call, parts, part * rows + row);
      } else {
        const auto at = [&](int64_t part, int64_t i) { return ReadOne<T>(call, parts, 2 * (part * rows + row) + i); };
        T mean = 0, between = 0;
        for (int64_t part = 0; part < count; ++part) mean += at(part, 0);
        mean /= static_cast<T>(count);
        for (int64_t part = 0; part < count; ++part) {
          squares += at(part, 1);
          between += (at(part, 0) - mean) * (at(part, 0) - mean);
        }
        squares += between * (whole / static_cast<T>(count));
        WriteOne(call, call.out[0], row, mean);
      }
      WriteOne(call, rstd_out, row, T(1) / std::sqrt(squares / whole + epsilon));
    });
  });
  return absl::OkStatus();
}

absl::Status NormApply(const Call& call) {
  const bool squares_only = call.attributes().root_mean_square();
  const int64_t d = Columns(call.in[0]);
  WithComputeType(call.in, [&]<typename T>() {
    T* shared = call.workspace.shared.Get<T>(2 * d);
    const T* gamma = Read(call, call.in[1], 0, d, shared);
    const T* beta = squares_only ? nullptr : Read(call, call.in[2], 0, d, shared + d);
    ForRows(call, Rows(call.in[0]), d, [&](int64_t row, int thread) {
      T* buffer = call.workspace.thread[thread].Get<T>(2 * d);
      const T* x = Read(call, call.in[0], row * d, d, buffer);
      T* y = Target(call.out[0], row * d, false, buffer + d);
      const T rstd = ReadOne<T>(call, call.in[squares_only ? 2 : 4], row);
      if (squares_only) {
        for (int64_t i = 0; i < d; ++i) y[i] = x[i] * rstd * gamma[i];
      } else {
        const T mean = ReadOne<T>(call, call.in[3], row);
        for (int64_t i = 0; i < d; ++i) y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
      }
      Write(call, call.out[0], row * d, d, false, y);
    });
  });
  return absl::OkStatus();
}

absl::Status NormBackwardPartial(const Call& call) {
  const bool squares_only = call.attributes().root_mean_square();
  const int64_t d = Columns(call.in[0]), rows = Rows(call.in[0]);
  WithComputeType(call.in, [&]<typename T>() {
    const T* gamma = Read(call, call.in[2], 0, d, call.workspace.shared.Get<T>(d));
    ForRows(call, rows, d, [&](int64_t row, int thread) {
      T* buffer = call.workspace.thread[thread].Get<T>(2 * d);
      const T* dy = Read(call, call.in[0], row * d, d, buffer);
      const T* x = Read(call, call.in[1], row * d, d, buffer + d);
      const T mean = squares_only ? T(0) : ReadOne<T>(call, call.in[3], row);
      const T rstd = ReadOne<T>(call, call.in[squares_only ? 3 : 4], row);
      const T products = LaneSum<T>(d, [&](int64_t i) { return dy[i] * gamma[i] * ((x[i] - mean) * rstd); });
      if (squares_only) {
        WriteOne(call, call.out[0], row, products);
        return;
      }
      WriteOne(call, call.out[0], 2 * row, LaneSum<T>(d, [&](int64_t i) { return dy[i] * gamma[i]; }));
      WriteOne(call, call.out[0], 2 * row + 1, products);
    });
  });
  return absl::OkStatus();
}

// dx = rstd (dy gamma - Σ(dy gamma) / n - x̂ Σ(dy gamma x̂) / n). With root_mean_square there is no first sum.
absl::Status NormBackwardApply(const Call& call) {
  const bool squares_only = call.attributes().root_mean_square();
  const bool accumulate = call.step.accumulate();
  const int64_t d = Columns(call.in[0]), rows = Rows(call.in[0]);
  const TensorView& sums = call.in[squares_only ? 4 : 5];
  WithComputeType(call.in, [&]<typename T>() {
    const T* gamma = Read(call, call.in[2], 0, d, call.workspace.shared.Get<T>(d));
    const T whole = static_cast<T>(call.attributes().whole_columns());
    ForRows(call, rows, d, [&](int64_t row, int thread) {
      T* buffer = call.workspace.thread[thread].Get<T>(3 * d);
      const T* dy = Read(call, call.in[0], row * d, d, buffer);
      const T* x = Read(call, call.in[1], row * d, d, buffer + d);
      T* dx = Target(call.out[0], row * d, accumulate, buffer + 2 * d);
      const T mean = squares_only ? T(0) : ReadOne<T>(call, call.in[3], row);
      const T rstd = ReadOne<T>(call, call.in[squares_only ? 3 : 4], row);
      const T first = squares_only ? T(0) : ReadOne<T>(call, sums, 2 * row) / whole;
      const T second = ReadOne<T>(call, sums, squares_only ? row : 2 * row + 1) / whole;
      for (int64_t i = 0; i < d; ++i) {
        dx[i] = rstd * (dy[i] * gamma[i] - first - (x[i] - mean) * rstd * second);
      }
      Write(call, call.out[0], row * d, d, accumulate, dx);
    });
  });
  return absl::OkStatus();
}

}  // namespace weft::exec::cpu
