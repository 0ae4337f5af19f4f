// Updates of weights in one pass over gradient and state. The kernels read the loss scale, the clip factor and the
// number of skipped steps from device memory, so nothing waits for the host.
#include <stddef.h>

#include "executor/backends/cuda/kernels/eights.h"
#include "executor/backends/cuda/kernels/fours.h"
#include "executor/backends/cuda/kernels/optimizer.h"
#include "executor/backends/cuda/kernels/rounding.h"
#include "executor/backends/cuda/kernels/tile_walk.h"

namespace weft::exec::cuda {
namespace {

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

// Factors of the update, computed in double and rounded to C once, as on the CPU.
template <typename C>
struct AdamFactors {
  C beta1, rest1, beta2, rest2, rate, inverse_correction2, epsilon;
};

// Data shared by a block.
template <typename C>
struct AdamPlace {
  AdamFactors<C> factors;
  TensorUpdate tensor;
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
          static_cast<C>(args.learning_rate / correction1),
          static_cast<C>(1 / sqrt_correction2),
          static_cast<C>(args.epsilon)};
}

// G, W and M: storage types of gradients, weights and moments in all tensors of the launch (eights.h).
template <typename C, Type G, Type W, Type M>
struct AdamWKernel {
  static constexpr int kMaxThreads = kTileThreads;
  AdamWUpdate args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const auto factors = thread.template Shared<AdamFactors<C>>(offsetof(AdamPlace<C>, factors), 1);
    const auto place = thread.template Shared<TensorUpdate>(offsetof(AdamPlace<C>, tensor), 1);
    // Powers in double take long, so one thread computes them. The others read them after the first tensor's barrier.
    if (thread.index() == 0) factors.Put(0, FactorsOf<C>(args));
    const Gradients<C> gradients(args.scaling);
    ForTiles(thread, args.table, static_cast<const TensorUpdate&>(args), place,
             [&](const TensorUpdate& tensor, int64_t begin, int64_t left) {
               // Random numbers are those of eight neighboring elements.
               if constexpr (W != Type::kNone && sizeof(C) == sizeof(float)) {
                 if (left >= kTileElements && !args.rounding.given) {
                   return UpdateFours(factors[0], gradients, tensor, FoursOf(begin, thread.index(), kTileThreads));
                 }
               }
               EightOfTile(thread, begin, left, [&](int64_t first, int64_t count) {
                 if (count >= kBlock) {
                   Update<G, W, M>(factors[0], gradients, tensor, first, count);
                 } else {
                   Update<Type::kNone, Type::kNone, Type::kNone>(factors[0], gradients, tensor, first, count);
                 }
               });
             });
  }

  WEFT_DEVICE void UpdateFours(const AdamFactors<C>& a, const Gradients<C>& gradients, const TensorUpdate& tensor,
                               const FourPlaces& places) const {
    Fours<W> weights;
    Fours<M> moments[2];
    Fours<G> gradient;
    weights.Ask(tensor.from[0], places);
#pragma unroll
    for (int i = 0; i < 2; ++i) moments[i].Ask(tensor.from[i + 1], places);
    gradient.Ask(tensor.gradient, places);
    C w[kBlock], m[kBlock], v[kBlock], g[kBlock];
    weights.Get(w);
    moments[0].Get(m);
    moments[1].Get(v);
    gradient.Get(g);
    Step(a, gradients, tensor, g, w, m, v);
    StoreFours<W>(tensor.to[0], places, w);
    StoreFours<M>(tensor.to[1], places, m);
    StoreFours<M>(tensor.to[2], places, v);
    if (tensor.param.data == nullptr) return;
    // All threads of the block take the same branch.
    if (tensor.param.type == Type::kBf16) {
      StoreFours<Type::kBf16>(tensor.param, places, w);
    } else if (tensor.param.type == Type::kFp16) {
      StoreFours<Type::kFp16>(tensor.param, places, w);
    } else {
#pragma unroll
      for (int i = 0; i < kBlock; ++i) Store<C>(tensor.param, places.first[i / kFour] + i % kFour, w[i]);
    }
  }

  // Updates the weights w and the moments m and v by the gradients g, unless this step is skipped.
  WEFT_DEVICE void Step(const AdamFactors<C>& a, const Gradients<C>& gradients, const TensorUpdate& tensor,
                        C (&g)[kBlock], C (&w)[kBlock], C (&m)[kBlock], C (&v)[kBlock]) const {
    if (gradients.skips) return;
    const C keep = static_cast<C>(1 - args.learning_rate * tensor.weight_decay);
#pragma unroll
    for (int i = 0; i < kBlock; ++i) {
      if (gradients.scaled) g[i] *= gradients.factor;
      m[i] = a.beta1 * m[i] + a.rest1 * g[i];
      v[i] = a.beta2 * v[i] + a.rest2 * (g[i] * g[i]);
      w[i] = keep * w[i] - a.rate * (m[i] / (Sqrt(v[i]) * a.inverse_correction2 + a.epsilon));
    }
  }

  template <Type kGradient, Type kWeight, Type kMoment>
  WEFT_DEVICE void Update(const AdamFactors<C>& a, const Gradients<C>& gradients, const TensorUpdate& tensor,
                          int64_t first, int64_t count) const {
    Eight<C, kWeight> weights;
    Eight<C, kMoment> moments[2];
    Eight<C, kGradient> gradient;
    weights.Ask(tensor.from[0], first, count, true);
#pragma unroll
    for (int i = 0; i < 2; ++i) moments[i].Ask(tensor.from[i + 1], first, count, true);
    gradient.Ask(tensor.gradient, first, count, true);
    C w[kBlock], m[kBlock], v[kBlock];
    weights.Get(w);
    moments[0].Get(m);
    moments[1].Get(v);
    C g[kBlock];
    gradient.Get(g);
    Step(a, gradients, tensor, g, w, m, v);
    StoreEight<C, kWeight>(tensor.to[0], first, count, true, w);
    StoreMoment<kMoment>(0, tensor, args.rounding, first, count, m);
    StoreMoment<kMoment>(1, tensor, args.rounding, first, count, v);
    StoreParam(tensor, args.rounding, first, count, w);
  }
};

template <typename C, Type G, Type W, Type M>
struct SgdKernel {
  static constexpr int kMaxThreads = kTileThreads;
  SgdUpdate args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const auto place = thread.template Shared<TensorUpdate>(0, 1);
    const Gradients<C> gradients(args.scaling);
    ForTiles(thread, args.table, static_cast<const TensorUpdate&>(args), place,
             [&](const TensorUpdate& tensor, int64_t begin, int64_t left) {
               EightOfTile(thread, begin, left, [&](int64_t first, int64_t count) {
                 if (count >= kBlock) {
                   Update<G, W, M>(gradients, tensor, first, count);
                 } else {
                   Update<Type::kNone, Type::kNone, Type::kNone>(gradients, tensor, first, count);
                 }
               });
             });
  }

  template <Type kGradient, Type kWeight, Type kMoment>
  WEFT_DEVICE void Update(const Gradients<C>& gradients, const TensorUpdate& tensor, int64_t first,
                          int64_t count) const {
    const C learning_rate = static_cast<C>(args.learning_rate), keep = static_cast<C>(args.momentum);
    const C weight_decay = static_cast<C>(tensor.weight_decay);
    const bool momentum = tensor.to[1].data != nullptr;
    Eight<C, kWeight> weights;
    Eight<C, kMoment> momenta;
    Eight<C, kGradient> gradient;
    weights.Ask(tensor.from[0], first, count, true);
    if (momentum) momenta.Ask(tensor.from[1], first, count, true);
    gradient.Ask(tensor.gradient, first, count, true);
    C w[kBlock], b[kBlock] = {};
    weights.Get(w);
    if (momentum) momenta.Get(b);
    if (!gradients.skips) {
      C g[kBlock];
      gradient.Get(g);
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
    StoreEight<C, kWeight>(tensor.to[0], first, count, true, w);
    if (momentum) StoreMoment<kMoment>(0, tensor, args.rounding, first, count, b);
    StoreParam(tensor, args.rounding, first, count, w);
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

template <typename Update>
int64_t BlocksFor(const Update& args) {
  return TileBlocks(args.table.tensors != nullptr ? args.table.tiles : TilesOf(args.elements));
}

// Calls f.template operator()<C, G, W, M>() on the host. Weights in fp32 with moments all in fp32 or all in bf16 have
// kernels for their types; in all other cases each array gives its own type.
template <typename Update, typename F>
Outcome WithStored(const Update& args, F f) {
  constexpr Type kAny = Type::kNone, kFp32 = Type::kFp32, kBf16 = Type::kBf16;
  if (args.in_double) return f.template operator()<double, kAny, kAny, kAny>();
  const auto all = [&args](int first, int end, Type type) {
    for (int i = first; i < end; ++i) {
      for (const Array& array : {args.from[i], args.to[i]}) {
        if (array.data != nullptr && array.type != type) return false;
      }
    }
    return true;
  };
  const Type gradient = all(0, 1, kFp32) ? args.gradient.type : kAny;
  if (all(1, 3, kFp32)) {
    if (gradient == kFp32) return f.template operator()<float, kFp32, kFp32, kFp32>();
    if (gradient == kBf16) return f.template operator()<float, kBf16, kFp32, kFp32>();
    if (gradient == Type::kFp16) return f.template operator()<float, Type::kFp16, kFp32, kFp32>();
  } else if (all(1, 3, kBf16)) {
    if (gradient == kFp32) return f.template operator()<float, kFp32, kFp32, kBf16>();
    if (gradient == kBf16) return f.template operator()<float, kBf16, kFp32, kBf16>();
  }
  return f.template operator()<float, kAny, kAny, kAny>();
}

}  // namespace

Outcome Launch(const AdamWUpdate& args, void* stream) {
  return WithStored(args, [&]<typename C, Type G, Type W, Type M>() {
    return LaunchKernel(AdamWKernel<C, G, W, M>{args}, BlocksFor(args), kTileThreads, sizeof(AdamPlace<C>), stream);
  });
}

Outcome Launch(const SgdUpdate& args, void* stream) {
  return WithStored(args, [&]<typename C, Type G, Type W, Type M>() {
    return LaunchKernel(SgdKernel<C, G, W, M>{args}, BlocksFor(args), kTileThreads, sizeof(TensorUpdate), stream);
  });
}

Outcome Launch(const LossScaleUpdate& args, void* stream) {
  return LaunchKernel(LossScaleKernel{args}, 1, kWarp, 0, stream);
}

}  // namespace weft::exec::cuda
