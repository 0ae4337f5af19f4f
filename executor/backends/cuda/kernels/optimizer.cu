// Updates of weights, in one pass over gradient and state. The loss scale, the clip factor and the number of skipped
// steps are read from device memory, so that nothing waits for the host.
#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/optimizer.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;
// Enough blocks to fill any device, few enough for what a block does once to count little.
constexpr int64_t kMostBlocks = 2048;

int64_t BlocksFor(int64_t elements) {
  const int64_t blocks = CeilDivide(elements, int64_t{kThreads} * kBlock);
  return blocks < kMostBlocks ? blocks : kMostBlocks;
}

// The first element of a thread's first block of elements, and how far on its next one is.
template <typename Thread>
WEFT_DEVICE int64_t FirstElement(const Thread& thread) {
  return (thread.block() * thread.count() + thread.index()) * kBlock;
}
template <typename Thread>
WEFT_DEVICE int64_t ElementStep(const Thread& thread) {
  return thread.blocks() * thread.count() * kBlock;
}

template <typename C>
struct Gradients {
  C factor;
  bool scaled, skips;

  WEFT_DEVICE explicit Gradients(const LossScaling& scaling) {
    const double given = scaling.norm == nullptr ? 1 : scaling.norm[1];
    factor = static_cast<C>(given);
    scaled = scaling.norm != nullptr;
    skips = scaling.scale != nullptr && given == 0;
  }
};

// As the CPU's: in double, rounded to C once.
template <typename C>
struct AdamFactors {
  C beta1, rest1, beta2, rest2, keep, rate, inverse_correction2, epsilon;
};

template <typename C>
WEFT_DEVICE AdamFactors<C> FactorsOf(const AdamWUpdate& args) {
  const double step = args.step - (args.scaling.scale == nullptr ? 0 : args.scaling.scale[2]);
  const double correction1 = 1 - pow(args.beta1, step);
  const double sqrt_correction2 = sqrt(1 - pow(args.beta2, step));
  return {static_cast<C>(args.beta1),
          static_cast<C>(1 - args.beta1),
          static_cast<C>(args.beta2),
          static_cast<C>(1 - args.beta2),
          static_cast<C>(1 - args.learning_rate * args.weight_decay),
          static_cast<C>(args.learning_rate / correction1),
          static_cast<C>(1 / sqrt_correction2),
          static_cast<C>(args.epsilon)};
}

template <typename C>
struct AdamWKernel {
  static constexpr int kMaxThreads = kThreads;
  AdamWUpdate args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    // Powers in double take long: one thread makes them.
    const auto shared = thread.template Shared<AdamFactors<C>>(0, 1);
    if (thread.index() == 0) shared[0] = FactorsOf<C>(args);
    thread.Sync();
    const AdamFactors<C> a = shared[0];
    const Gradients<C> gradients(args.scaling);
    for (int64_t first = FirstElement(thread); first < args.elements; first += ElementStep(thread)) {
      const int64_t count = args.elements - first;
      C w[kBlock], m[kBlock], v[kBlock];
      LoadSome(args.from[0], first, count, true, w);
      LoadSome(args.from[1], first, count, true, m);
      LoadSome(args.from[2], first, count, true, v);
      if (!gradients.skips) {
        C g[kBlock];
        LoadSome(args.gradient, first, count, true, g);
#pragma unroll
        for (int i = 0; i < kBlock; ++i) {
          if (gradients.scaled) g[i] *= gradients.factor;
          m[i] = a.beta1 * m[i] + a.rest1 * g[i];
          v[i] = a.beta2 * v[i] + a.rest2 * (g[i] * g[i]);
          w[i] = a.keep * w[i] - a.rate * (m[i] / (Sqrt(v[i]) * a.inverse_correction2 + a.epsilon));
        }
      }
      StoreSome(args.to[0], first, count, true, w);
      StoreSome(args.to[1], first, count, true, m);
      StoreSome(args.to[2], first, count, true, v);
      if (args.param.data != nullptr) StoreSome(args.param, first, count, true, w);
    }
  }
};

template <typename C>
struct SgdKernel {
  static constexpr int kMaxThreads = kThreads;
  SgdUpdate args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const Gradients<C> gradients(args.scaling);
    const C learning_rate = static_cast<C>(args.learning_rate), keep = static_cast<C>(args.momentum);
    const C weight_decay = static_cast<C>(args.weight_decay);
    const bool momentum = args.to[1].data != nullptr;
    for (int64_t first = FirstElement(thread); first < args.elements; first += ElementStep(thread)) {
      const int64_t count = args.elements - first;
      C w[kBlock], b[kBlock] = {};
      LoadSome(args.from[0], first, count, true, w);
      if (momentum) LoadSome(args.from[1], first, count, true, b);
      if (!gradients.skips) {
        C g[kBlock];
        LoadSome(args.gradient, first, count, true, g);
#pragma unroll
        for (int i = 0; i < kBlock; ++i) {
          if (gradients.scaled) g[i] *= gradients.factor;
          g[i] += weight_decay * w[i];
          if (momentum) {
            g[i] = keep * b[i] + g[i];
            b[i] = g[i];
          }
          w[i] -= learning_rate * g[i];
        }
      }
      StoreSome(args.to[0], first, count, true, w);
      if (momentum) StoreSome(args.to[1], first, count, true, b);
      if (args.param.data != nullptr) StoreSome(args.param, first, count, true, w);
    }
  }
};

struct LossScaleKernel {
  static constexpr int kMaxThreads = kWarp;
  LossScaleUpdate args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    if (thread.index() != 0) return;
    double scale = args.from[0], good = args.from[1], skipped = args.from[2];
    if (args.norm[1] == 0) {
      scale = Largest(1.0, scale / 2);
      good = 0;
      skipped += 1;
    } else {
      good += 1;
      if (good >= args.growth_interval) {
        scale = Least(0x1p60, scale * 2);
        good = 0;
      }
    }
    args.to[0] = scale;
    args.to[1] = good;
    args.to[2] = skipped;
  }
};

}  // namespace

Outcome Launch(const AdamWUpdate& args, void* stream) {
  const int64_t blocks = BlocksFor(args.elements);
  if (args.in_double) {
    return LaunchKernel(AdamWKernel<double>{args}, blocks, kThreads, sizeof(AdamFactors<double>), stream);
  }
  return LaunchKernel(AdamWKernel<float>{args}, blocks, kThreads, sizeof(AdamFactors<float>), stream);
}

Outcome Launch(const SgdUpdate& args, void* stream) {
  const int64_t blocks = BlocksFor(args.elements);
  if (args.in_double) return LaunchKernel(SgdKernel<double>{args}, blocks, kThreads, 0, stream);
  return LaunchKernel(SgdKernel<float>{args}, blocks, kThreads, 0, stream);
}

Outcome Launch(const LossScaleUpdate& args, void* stream) {
  return LaunchKernel(LossScaleKernel{args}, 1, kWarp, 0, stream);
}

}  // namespace weft::cuda
