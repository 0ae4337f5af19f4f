// A block has 512 neighbouring accumulators, a thread two of them.
#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/exact.h"
#include "executor/backends/cuda/kernels/exact_tile.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = ExactTile::kThreads, kEach = ExactTile::kEach, kElements = ExactTile::kElements;

struct Accumulate {
  static constexpr int kMaxThreads = kThreads;
  ExactTerms args;
  bool aligned;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t first = thread.block() * kElements;
    Exact192* const accumulators = args.accumulators + first;
    ExactTile tile = {Least<int64_t>(kElements, args.elements - first), aligned, {}};
    if (!args.fresh) tile.Ask(thread, accumulators);
    double x[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int64_t i = thread.index() + k * kThreads;
      x[k] = i < tile.count ? Load<double>(args.x, first + i) : 0.0;
    }
    const auto limbs = thread.template Shared<uint64_t>(0, ExactTile::kLimbs);
    if (!args.fresh) tile.Put(thread, accumulators, limbs);
    thread.Sync();
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int i = thread.index() + k * kThreads;
      if (i >= tile.count) continue;
      Exact192 sum = {{0, 0, 0}};
      if (!args.fresh) sum = ExactAt(limbs, i);
      exact192::AddNumber(sum, x[k]);
      SetExact(limbs, i, sum);
    }
    thread.Sync();
    tile.Store(thread, limbs, accumulators);
  }
};

struct Round {
  static constexpr int kMaxThreads = kThreads;
  ExactResult args;
  bool aligned;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t first = thread.block() * kElements;
    ExactTile tile = {Least<int64_t>(kElements, args.elements - first), aligned, {}};
    tile.Ask(thread, args.accumulators + first);
    const auto limbs = thread.template Shared<uint64_t>(0, ExactTile::kLimbs);
    tile.Put(thread, args.accumulators + first, limbs);
    thread.Sync();
    // The subnormals of fp16 have fewer bits than its other numbers: what is stored of a number rounded to odd is
    // rounded once.
    const bool to_odd = args.y.type == Type::kFp16;
    const int precision = args.y.type == Type::kFp32 ? 24 : args.y.type == Type::kBf16 ? 8 : 53;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int i = thread.index() + k * kThreads;
      if (i < tile.count) {
        cuda::Store(args.y, first + i, exact192::Rounded(ExactAt(limbs, i), precision, to_odd));
      }
    }
  }
};

struct Constant {
  static constexpr int kMaxThreads = kThreads;
  ExactConstant args;
  bool aligned;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t first = thread.block() * kElements;
    const ExactTile tile = {Least<int64_t>(kElements, args.elements - first), aligned, {}};
    const auto limbs = thread.template Shared<uint64_t>(0, ExactTile::kLimbs);
#pragma unroll
    for (int k = 0; k < kEach; ++k) SetExact(limbs, thread.index() + k * kThreads, args.value);
    thread.Sync();
    tile.Store(thread, limbs, args.accumulators + first);
  }
};

bool Aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

template <typename Kernel>
Outcome LaunchTiles(const Kernel& kernel, int64_t elements, void* stream) {
  return LaunchKernel(kernel, CeilDivide(elements, kElements), kThreads, ExactTile::kBytes, stream);
}

}  // namespace

Outcome Launch(const ExactTerms& args, void* stream) {
  return LaunchTiles(Accumulate{args, Aligned(args.accumulators)}, args.elements, stream);
}

Outcome Launch(const ExactResult& args, void* stream) {
  return LaunchTiles(Round{args, Aligned(args.accumulators)}, args.elements, stream);
}

Outcome Launch(const ExactConstant& args, void* stream) {
  return LaunchTiles(Constant{args, Aligned(args.accumulators)}, args.elements, stream);
}

}  // namespace weft::cuda
