#include "executor/backends/cuda/kernels/diffusion.h"
#include "executor/backends/cuda/kernels/eights.h"
#include "executor/backends/cuda/kernels/rows.h"

namespace weft::exec::cuda {
namespace {

constexpr int kThreads = 256;

struct Embed {
  static constexpr int kMaxThreads = kThreads;
  TimestepEmbedding a;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t item = thread.block() * thread.count() + thread.index();
    if (item >= a.rows * a.columns) return;
    const int64_t row = Divide(item, a.columns), column = item - row * a.columns, half = a.columns / 2;
    double y = 0;
    if (column < 2 * half) {
      const int64_t j = column < half ? column : column - half;
      const double frequency = exp(-log(10000.0) * static_cast<double>(j) / static_cast<double>(half));
      const double angle = a.timesteps[row] * a.scale * frequency;
      y = column < half ? cos(angle) : sin(angle);
    }
    Store<double>(a.y, item, y);
  }
};

// A run has kThreads * kBlock elements. Of n blocks, block b sums runs b, b + n, b + 2 n, and so on.
template <Type S>
struct SumParts {
  static constexpr int kMaxThreads = kThreads;
  SquaredError a;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    double sum = 0;
    const int64_t stride = thread.blocks() * kThreads * kBlock;
    for (int64_t first = (thread.block() * kThreads + thread.index()) * kBlock; first < a.elements; first += stride) {
      if (S != Type::kNone && a.elements - first >= kBlock) {
        AddUp<S>(first, sum);
      } else {
        AddUp<Type::kNone>(first, sum);
      }
    }
    sum = BlockSum(thread, sum);
    if (thread.index() == 0) a.scratch[thread.block()] = sum;
  }

  template <Type T>
  WEFT_DEVICE void AddUp(int64_t first, double& sum) const {
    Eight<double, T> prediction, target;
    prediction.Ask(a.prediction, first, a.elements - first, true);
    target.Ask(a.target, first, a.elements - first, true);
    double p[kBlock], t[kBlock];
    prediction.Get(p);
    target.Get(t);
#pragma unroll
    for (int i = 0; i < kBlock; ++i) sum += (p[i] - t[i]) * (p[i] - t[i]);
  }
};

struct SumAll {
  static constexpr int kMaxThreads = kThreads;
  SquaredError a;
  int64_t parts;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    double sum = 0;
    for (int64_t i = thread.index(); i < parts; i += kThreads) sum += a.scratch[i];
    sum = BlockSum(thread, sum);
    if (thread.index() == 0) *a.loss = a.weight * sum;
  }
};

}  // namespace

Outcome Launch(const TimestepEmbedding& embedding, void* stream) {
  return LaunchKernel(Embed{embedding}, CeilDivide(embedding.rows * embedding.columns, kThreads), kThreads, 0, stream);
}

Outcome Launch(const SquaredError& error, void* stream) {
  const Outcome parts = WithEights(false, true, {error.prediction, error.target}, {}, [&]<typename C, Type S>() {
    return LaunchKernel(SumParts<S>{error}, error.Parts(), kThreads, kBlockSumBytes, stream);
  });
  if (parts != nullptr) return parts;
  return LaunchKernel(SumAll{error, error.Parts()}, 1, kThreads, kBlockSumBytes, stream);
}

}  // namespace weft::exec::cuda
