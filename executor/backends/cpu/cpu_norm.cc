// LAYER_NORM and its backward kernels.
#include "executor/backends/cpu/cpu_kernel.h"

namespace weft::exec::cpu {
namespace {

template <typename T>
T ReadOne(const Call& call, const TensorView& view, int64_t element) {
  T buffer;
  return *Read(call, view, element, 1, &buffer);
}

}  // namespace

absl::Status LayerNorm(const Call& call) {
  const int64_t d = Columns(call.in[0]), rows = Rows(call.in[0]);
  WithComputeType(call.in, [&]<typename T>() {
    T* shared = call.workspace.shared.Get<T>(2 * d);
    const T* gamma = Read(call, call.in[1], 0, d, shared);
    const T* beta = Read(call, call.in[2], 0, d, shared + d);
    ForRows(call, rows, d, [&](int64_t row, int thread) {
      T* buffer = call.workspace.thread[thread].Get<T>(2 * d);
      const T* x = Read(call, call.in[0], row * d, d, buffer);
      T* y = Target(call.out[0], row * d, false, buffer + d);
      T mean, rstd;
      GetLoops<T>(call).layer_norm(x, gamma, beta, d, static_cast<T>(call.attributes().epsilon()), y, &mean, &rstd);
      Write(call, call.out[0], row * d, d, false, y);
      GetLoops<T>(call).store(&mean, StorageOf(call.out[1]), 1, At(call.out[1], row));
      GetLoops<T>(call).store(&rstd, StorageOf(call.out[2]), 1, At(call.out[2], row));
    });
  });
  return absl::OkStatus();
}

absl::Status LayerNormBackward(const Call& call) {
  const bool accumulate = call.step.accumulate();
  const int64_t d = Columns(call.in[0]), rows = Rows(call.in[0]);
  WithComputeType(call.in, [&]<typename T>() {
    const T* gamma = Read(call, call.in[2], 0, d, call.workspace.shared.Get<T>(d));
    ForRows(call, rows, d, [&](int64_t row, int thread) {
      T* buffer = call.workspace.thread[thread].Get<T>(3 * d);
      const T* dy = Read(call, call.in[0], row * d, d, buffer);
      const T* x = Read(call, call.in[1], row * d, d, buffer + d);
      T* dx = Target(call.out[0], row * d, accumulate, buffer + 2 * d);
      GetLoops<T>(call).layer_norm_backward(dy, x, gamma, ReadOne<T>(call, call.in[3], row),
                                            ReadOne<T>(call, call.in[4], row), d, dx);
      Write(call, call.out[0], row * d, d, accumulate, dx);
    });
  });
  return absl::OkStatus();
}

// Threads split the columns, so each sum runs over ascending rows.
absl::Status LayerNormBackwardWeight(const Call& call) {
  const bool accumulate = call.step.accumulate();
  const int64_t d = Columns(call.in[0]), rows = Rows(call.in[0]);
  constexpr int64_t kColumns = 128;
  WithComputeType(call.in, [&]<typename T>() {
    const Loops<T>& loops = GetLoops<T>(call);
    T* shared = call.workspace.shared.Get<T>(2 * rows);
    const T* mean = Read(call, call.in[2], 0, rows, shared);
    const T* rstd = Read(call, call.in[3], 0, rows, shared + rows);
    call.pool().Run((d + kColumns - 1) / kColumns, [&](int64_t task, int) {
      const int64_t first = task * kColumns, count = std::min(kColumns, d - first);
      T sums[2][kColumns] = {};
      T buffer[2][kColumns];
      for (int64_t row = 0; row < rows; ++row) {
        const T* dy = Read(call, call.in[0], row * d + first, count, buffer[0]);
        const T* x = Read(call, call.in[1], row * d + first, count, buffer[1]);
        loops.accumulate_normalized(dy, x, mean[row], rstd[row], count, sums[0]);
        loops.accumulate(dy, count, sums[1]);
      }
      for (int i = 0; i < 2; ++i) {
        T* result = Target(call.out[i], first, accumulate, sums[i]);
        if (result != sums[i]) std::copy(sums[i], sums[i] + count, result);
        Write(call, call.out[i], first, count, accumulate, result);
      }
    });
  });
  return absl::OkStatus();
}

}  // namespace weft::exec::cpu
