// Kernels of image models that move or scale elements: concatenation and slices of columns, upsampling, and kernels
// with one row per sample.
#include "executor/backends/cpu/cpu_kernel.h"
#include "proto/util/status.h"

namespace weft::exec::cpu {
namespace {

// Returns the row of the upsampled image at position (dy, dx) of the four positions that `row` becomes.
int64_t UpsampledRow(const Call& call, int64_t row, int64_t dy, int64_t dx) {
  const int64_t height = call.attributes().height(), width = call.attributes().width();
  const int64_t sample = row / (height * width), y = row / width % height, x = row % width;
  return (sample * 2 * height + 2 * y + dy) * 2 * width + 2 * x + dx;
}

constexpr int64_t kColumns = 128;

// Calls f(sample, first column, count) for each block of columns of each sample, in parallel. One task computes each
// sum over the rows of a sample.
template <typename F>
void ForSampleColumns(const Call& call, int64_t samples, int64_t columns, F f) {
  const int64_t blocks = (columns + kColumns - 1) / kColumns;
  call.pool().Run(samples * blocks, [&](int64_t task, int) {
    const int64_t first = task % blocks * kColumns;
    f(task / blocks, first, std::min(kColumns, columns - first));
  });
}

// Calls f(x, e, n, result) for each row x of n elements of in[0]. in[1] holds `stride` vectors of n elements per
// sample; e points to the first `read` vectors of the row's sample.
template <typename F>
absl::Status WithSampleVectors(const Call& call, int64_t read, int64_t stride, F f) {
  const TensorView& y = call.out[0];
  const int64_t n = Columns(y), sequence = call.attributes().sequence();
  WithComputeType(call.in, [&]<typename T>() {
    ForRows(call, Rows(y), n, [&](int64_t row, int thread) {
      T* buffer = call.workspace.thread[thread].Get<T>((read + 2) * n);
      const T* x = Read(call, call.in[0], row * n, n, buffer);
      const T* e = Read(call, call.in[1], row / sequence * stride * n, read * n, buffer + n);
      T* result = Target(y, row * n, false, buffer + (read + 1) * n);
      f(x, e, n, result);
      Write(call, y, row * n, n, false, result);
    });
  });
  return absl::OkStatus();
}

}  // namespace

absl::Status ConcatColumns(const Call& call) {
  const TensorView& y = call.out[0];
  const int64_t n = Columns(y), of_a = Columns(call.in[0]);
  WithComputeType(call.in, [&]<typename T>() {
    ForRows(call, Rows(y), n, [&](int64_t row, int thread) {
      T* buffer = call.workspace.thread[thread].Get<T>(n);
      for (const bool second : {false, true}) {
        const TensorView& part = call.in[second ? 1 : 0];
        const int64_t count = second ? n - of_a : of_a;
        const T* x = Read(call, part, row * count, count, buffer);
        GetLoops<T>(call).store(x, StorageOf(y), count, At(y, row * n + (second ? of_a : 0)));
      }
    });
  });
  return absl::OkStatus();
}

absl::Status SliceColumns(const Call& call) {
  const TensorView &x = call.in[0], &y = call.out[0];
  const int64_t rows = Rows(y), of_group = Columns(x), count = Columns(y);
  WEFT_ASSIGN_OR_RETURN(const int64_t first, FirstColumnOfSlice(call.step, x, y, call.context));
  WithComputeType(call.in, [&]<typename T>() {
    ForRows(call, rows, count, [&](int64_t row, int thread) {
      T* buffer = call.workspace.thread[thread].Get<T>(count);
      for (int64_t done = 0; done < count;) {
        const int64_t group = (first + done) / of_group, column = (first + done) % of_group;
        const int64_t run = std::min(count - done, of_group - column);
        const T* from = Read(call, x, (group * rows + row) * of_group + column, run, buffer);
        GetLoops<T>(call).store(from, StorageOf(y), run, At(y, row * count + done));
        done += run;
      }
    });
  });
  return absl::OkStatus();
}

absl::Status Upsample(const Call& call) {
  const TensorView &x = call.in[0], &y = call.out[0];
  const int64_t n = Columns(x);
  WithComputeType(call.in, [&]<typename T>() {
    ForRows(call, Rows(x), n, [&](int64_t row, int thread) {
      const T* from = Read(call, x, row * n, n, call.workspace.thread[thread].Get<T>(n));
      for (int i = 0; i < 4; ++i) {
        GetLoops<T>(call).store(from, StorageOf(y), n, At(y, UpsampledRow(call, row, i / 2, i % 2) * n));
      }
    });
  });
  return absl::OkStatus();
}

absl::Status UpsampleBackward(const Call& call) {
  const TensorView &dy = call.in[0], &dx = call.out[0];
  const int64_t n = Columns(dx);
  WithComputeType(call.in, [&]<typename T>() {
    ForRows(call, Rows(dx), n, [&](int64_t row, int thread) {
      T* buffer = call.workspace.thread[thread].Get<T>(2 * n);
      T* sum = Target(dx, row * n, false, buffer + n);
      std::fill(sum, sum + n, T(0));
      for (int i = 0; i < 4; ++i) {
        GetLoops<T>(call).accumulate(Read(call, dy, UpsampledRow(call, row, i / 2, i % 2) * n, n, buffer), n, sum);
      }
      Write(call, dx, row * n, n, false, sum);
    });
  });
  return absl::OkStatus();
}

absl::Status AddPerSample(const Call& call) {
  return WithSampleVectors(
      call, 1, 1, [&]<typename T>(const T* x, const T* e, int64_t n, T* sum) { GetLoops<T>(call).add(x, e, n, sum); });
}

absl::Status SumPerSample(const Call& call) {
  const TensorView &dy = call.in[0], &de = call.out[0];
  const int64_t n = Columns(dy), sequence = call.attributes().sequence();
  WithComputeType(call.in, [&]<typename T>() {
    ForSampleColumns(call, Rows(dy) / sequence, n, [&](int64_t sample, int64_t first, int64_t count) {
      T sums[kColumns] = {};
      T buffer[kColumns];
      for (int64_t row = sample * sequence; row < (sample + 1) * sequence; ++row) {
        GetLoops<T>(call).accumulate(Read(call, dy, row * n + first, count, buffer), count, sums);
      }
      GetLoops<T>(call).store(sums, StorageOf(de), count, At(de, sample * n + first));
    });
  });
  return absl::OkStatus();
}

absl::Status ScaleShift(const Call& call) {
  return WithSampleVectors(call, 2, 2, []<typename T>(const T* x, const T* e, int64_t n, T* y) {
    for (int64_t c = 0; c < n; ++c) y[c] = x[c] * (1 + e[c]) + e[n + c];
  });
}

absl::Status ScaleShiftBackward(const Call& call) {
  return WithSampleVectors(call, 1, 2, []<typename T>(const T* dy, const T* e, int64_t n, T* dx) {
    for (int64_t c = 0; c < n; ++c) dx[c] = dy[c] * (1 + e[c]);
  });
}

absl::Status ScaleShiftBackwardSample(const Call& call) {
  const TensorView &dy = call.in[0], &de = call.out[0];
  const int64_t n = Columns(dy), sequence = call.attributes().sequence();
  WithComputeType(call.in, [&]<typename T>() {
    ForSampleColumns(call, Rows(dy) / sequence, n, [&](int64_t sample, int64_t first, int64_t count) {
      T sums[2][kColumns] = {};
      T buffer[2][kColumns];
      for (int64_t row = sample * sequence; row < (sample + 1) * sequence; ++row) {
        const T* gradient = Read(call, dy, row * n + first, count, buffer[0]);
        const T* x = Read(call, call.in[1], row * n + first, count, buffer[1]);
        for (int64_t c = 0; c < count; ++c) {
          sums[0][c] += gradient[c] * x[c];
          sums[1][c] += gradient[c];
        }
      }
      for (int i = 0; i < 2; ++i) {
        GetLoops<T>(call).store(sums[i], StorageOf(de), count, At(de, (2 * sample + i) * n + first));
      }
    });
  });
  return absl::OkStatus();
}

}  // namespace weft::exec::cpu
