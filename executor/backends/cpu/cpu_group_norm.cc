// GROUP_NORM and its backward kernels. A task is one group of one sample. Sums run over ascending rows, channel by
// channel, and then over ascending channels.
#include <cmath>

#include "executor/backends/cpu/cpu_kernel.h"

namespace weft::exec::cpu {
namespace {

struct Geometry {
  int64_t rows, columns, groups, samples;
  // Channels per group.
  int64_t width() const { return columns / groups; }
};

Geometry GeometryOf(const Call& call, const TensorView& x) {
  const int64_t rows = call.attributes().sequence();
  return {rows, Columns(x), call.attributes().groups(), Rows(x) / rows};
}

template <typename T>
T ReadOne(const Call& call, const TensorView& view, int64_t element) {
  T buffer;
  return *Read(call, view, element, 1, &buffer);
}

// One group of one sample.
struct Group {
  Group(const Geometry& g, int64_t task)
      : index(task), channel(task % g.groups * g.width()), first(task / g.groups * g.rows * g.columns + channel) {}

  // Index of the group in mean and rstd.
  int64_t index;
  // First channel of the group, an index into gamma and beta.
  int64_t channel;
  // First element of the group in the sample's first row.
  int64_t first;
};

template <typename T>
void Forward(const Call& call, const Geometry& g) {
  const TensorView &x = call.in[0], &y = call.out[0];
  const Loops<T>& loops = GetLoops<T>(call);
  const int64_t d = g.width();
  const T count = static_cast<T>(g.rows * d), epsilon = static_cast<T>(call.attributes().epsilon());
  T* shared = call.workspace.shared.Get<T>(2 * g.columns);
  const T* gamma = Read(call, call.in[1], 0, g.columns, shared);
  const T* beta = Read(call, call.in[2], 0, g.columns, shared + g.columns);
  call.pool().Run(g.samples * g.groups, [&](int64_t task, int thread) {
    const Group group(g, task);
    T* sums = call.workspace.thread[thread].Get<T>(3 * d);
    T *in = sums + d, *out = sums + 2 * d;
    // Calls f(elements of the row, index of its first element) for every row.
    const auto rows = [&](auto f) {
      for (int64_t r = 0; r < g.rows; ++r) {
        const int64_t at = group.first + r * g.columns;
        f(Read(call, x, at, d, in), at);
      }
    };
    const auto total = [&] {
      T sum = 0;
      for (int64_t c = 0; c < d; ++c) sum += sums[c];
      return sum;
    };
    std::fill(sums, sums + d, T(0));
    rows([&](const T* row, int64_t) { loops.accumulate(row, d, sums); });
    const T mean = total() / count;
    std::fill(sums, sums + d, T(0));
    rows([&](const T* row, int64_t) {
      for (int64_t c = 0; c < d; ++c) sums[c] += (row[c] - mean) * (row[c] - mean);
    });
    const T rstd = 1 / std::sqrt(total() / count + epsilon);
    rows([&](const T* row, int64_t at) {
      T* result = Target(y, at, false, out);
      for (int64_t c = 0; c < d; ++c) {
        result[c] = (row[c] - mean) * rstd * gamma[group.channel + c] + beta[group.channel + c];
      }
      Write(call, y, at, d, false, result);
    });
    loops.store(&mean, StorageOf(call.out[1]), 1, At(call.out[1], group.index));
    loops.store(&rstd, StorageOf(call.out[2]), 1, At(call.out[2], group.index));
  });
}

// With z = (x - mean) rstd and h = gamma dy: dx = rstd (h - avg(h) - z avg(h z)), averages over the group.
template <typename T>
void Backward(const Call& call, const Geometry& g) {
  const TensorView &dy = call.in[0], &x = call.in[1], &dx = call.out[0];
  const bool accumulate = call.step.accumulate();
  const int64_t d = g.width();
  const T count = static_cast<T>(g.rows * d);
  const T* gamma = Read(call, call.in[2], 0, g.columns, call.workspace.shared.Get<T>(g.columns));
  call.pool().Run(g.samples * g.groups, [&](int64_t task, int thread) {
    const Group group(g, task);
    const T mean = ReadOne<T>(call, call.in[3], group.index), rstd = ReadOne<T>(call, call.in[4], group.index);
    T* plain = call.workspace.thread[thread].Get<T>(5 * d);
    T *scaled = plain + d, *in_x = plain + 2 * d, *in_dy = plain + 3 * d, *out = plain + 4 * d;
    const T* scale = gamma + group.channel;
    const auto rows = [&](auto f) {
      for (int64_t r = 0; r < g.rows; ++r) {
        const int64_t at = group.first + r * g.columns;
        f(Read(call, x, at, d, in_x), Read(call, dy, at, d, in_dy), at);
      }
    };
    std::fill(plain, plain + 2 * d, T(0));
    rows([&](const T* row, const T* gradient, int64_t) {
      for (int64_t c = 0; c < d; ++c) {
        plain[c] += gradient[c];
        scaled[c] += gradient[c] * ((row[c] - mean) * rstd);
      }
    });
    T sum = 0, product = 0;
    for (int64_t c = 0; c < d; ++c) {
      sum += scale[c] * plain[c];
      product += scale[c] * scaled[c];
    }
    sum /= count;
    product /= count;
    rows([&](const T* row, const T* gradient, int64_t at) {
      T* result = Target(dx, at, accumulate, out);
      for (int64_t c = 0; c < d; ++c) {
        result[c] = rstd * (scale[c] * gradient[c] - sum - (row[c] - mean) * rstd * product);
      }
      Write(call, dx, at, d, accumulate, result);
    });
  });
}

// Threads split the columns, so each sum runs over ascending rows.
template <typename T>
void BackwardWeight(const Call& call, const Geometry& g) {
  const TensorView &dy = call.in[0], &x = call.in[1];
  const bool accumulate = call.step.accumulate();
  constexpr int64_t kColumns = 128;
  call.pool().Run((g.columns + kColumns - 1) / kColumns, [&](int64_t task, int) {
    const int64_t first = task * kColumns, count = std::min(kColumns, g.columns - first);
    T sums[2][kColumns] = {};
    T buffer[2][kColumns], mean[kColumns], rstd[kColumns];
    for (int64_t sample = 0; sample < g.samples; ++sample) {
      for (int64_t c = 0; c < count; ++c) {
        const int64_t index = sample * g.groups + (first + c) / g.width();
        mean[c] = ReadOne<T>(call, call.in[2], index);
        rstd[c] = ReadOne<T>(call, call.in[3], index);
      }
      for (int64_t r = 0; r < g.rows; ++r) {
        const int64_t at = (sample * g.rows + r) * g.columns + first;
        const T* gradient = Read(call, dy, at, count, buffer[0]);
        const T* row = Read(call, x, at, count, buffer[1]);
        for (int64_t c = 0; c < count; ++c) {
          sums[0][c] += gradient[c] * ((row[c] - mean[c]) * rstd[c]);
          sums[1][c] += gradient[c];
        }
      }
    }
    for (int i = 0; i < 2; ++i) {
      T* result = Target(call.out[i], first, accumulate, sums[i]);
      if (result != sums[i]) std::copy(sums[i], sums[i] + count, result);
      Write(call, call.out[i], first, count, accumulate, result);
    }
  });
}

}  // namespace

absl::Status GroupNorm(const Call& call) {
  const Geometry g = GeometryOf(call, call.in[0]);
  WithComputeType(call.in, [&]<typename T>() { Forward<T>(call, g); });
  return absl::OkStatus();
}

absl::Status GroupNormBackward(const Call& call) {
  const Geometry g = GeometryOf(call, call.in[1]);
  WithComputeType(call.in, [&]<typename T>() { Backward<T>(call, g); });
  return absl::OkStatus();
}

absl::Status GroupNormBackwardWeight(const Call& call) {
  const Geometry g = GeometryOf(call, call.in[1]);
  WithComputeType(call.in, [&]<typename T>() { BackwardWeight<T>(call, g); });
  return absl::OkStatus();
}

}  // namespace weft::exec::cpu
