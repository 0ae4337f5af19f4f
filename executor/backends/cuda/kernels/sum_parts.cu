// One thread sums each element, so a part may be overwritten in place.
#include "executor/backends/cuda/kernels/eights.h"
#include "executor/backends/cuda/kernels/exact.h"
#include "executor/backends/cuda/kernels/exact_tile.h"
#include "executor/backends/cuda/kernels/sum_parts.h"

namespace weft::exec::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 4096;

// Passed by value, so that no host memory has to outlive the launch.
template <int most>
struct Parts {
  const void* part[most];
  int count;

  WEFT_DEVICE Array At(int p, Type type) const { return {const_cast<void*>(part[p]), type}; }
};

template <typename C, Type S, int most>
struct Sum {
  static constexpr int kMaxThreads = kThreads;
  // Parts that a thread loads together.
  static constexpr int kTogether = 4;
  Parts<most> parts;
  int64_t elements;
  // True if all parts allow loads of eight elements. Pieces of collectives may begin anywhere.
  bool aligned;
  Array destination;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t step = thread.blocks() * thread.count() * kBlock;
    int64_t first = (thread.block() * thread.count() + thread.index()) * kBlock;
    for (; first < elements; first += step) {
      if (S != Type::kNone && elements - first >= kBlock) {
        AddUp<S>(first);
      } else {
        AddUp<Type::kNone>(first);
      }
    }
  }

  template <Type T>
  WEFT_DEVICE void AddUp(int64_t first) const {
    const int64_t count = elements - first;
    C sum[kBlock];
    for (int p = 0; p < parts.count; p += kTogether) {
      Eight<C, T> part[kTogether];
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        const int of = p + k < parts.count ? p + k : p;
        part[k].Ask(parts.At(of, destination.type), first, of == p + k ? count : 0, aligned);
      }
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        C term[kBlock];
        part[k].Get(term);
        // The sum starts with the first part itself, not with 0, so the sum of one part equals it, including -0.
#pragma unroll
        for (int i = 0; i < kBlock; ++i)
          sum[i] = p + k == 0 ? term[i] : p + k < parts.count ? sum[i] + term[i] : sum[i];
      }
    }
    StoreEight<C, T>(destination, first, count, aligned, sum);
  }
};

template <int most>
struct ExactSum {
  static constexpr int kMaxThreads = ExactTile::kThreads;
  static constexpr int kEach = ExactTile::kEach;
  Parts<most> parts;
  int64_t elements;
  bool aligned;
  Exact192* destination;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t first = thread.block() * ExactTile::kElements;
    const auto part = [&](int p) { return static_cast<const Exact192*>(parts.part[p]) + first; };
    ExactTile tile = {Least<int64_t>(ExactTile::kElements, elements - first), aligned, {}};
    const auto limbs = thread.template Shared<uint64_t>(0, ExactTile::kLimbs);
    Exact192 sum[kEach] = {};
    tile.Ask(thread, part(0));
    for (int p = 0; p < parts.count; ++p) {
      tile.Put(thread, part(p), limbs);
      // Load the next part while this one is added.
      if (p + 1 < parts.count) tile.Ask(thread, part(p + 1));
      thread.Sync();
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        const int i = thread.index() + k * ExactTile::kThreads;
        if (i >= tile.count) continue;
        const Exact192 term = ExactAt(limbs, i);
        if (p == 0) {
          sum[k] = term;
        } else {
          exact192::Merge(sum[k], term);
        }
      }
      thread.Sync();
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int i = thread.index() + k * ExactTile::kThreads;
      if (i < tile.count) SetExact(limbs, i, sum[k]);
    }
    thread.Sync();
    tile.Store(thread, limbs, destination + first);
  }
};

template <typename C>
struct Add {
  static constexpr int kMaxThreads = kThreads;
  AddValues args;
  bool aligned;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t step = thread.blocks() * thread.count() * kBlock;
    int64_t first = (thread.block() * thread.count() + thread.index()) * kBlock;
    for (; first < args.elements; first += step) {
      const int64_t count = args.elements - first;
      C x[kBlock];
      LoadSome(args.values, first, count, aligned, x);
      WriteSome(args.destination, first, count, aligned, args.accumulate, x);
    }
  }
};

bool Aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

int64_t BlocksFor(int64_t elements, int64_t per_thread) {
  const int64_t blocks = CeilDivide(elements, kThreads * per_thread);
  return blocks < kMaxBlocks ? blocks : kMaxBlocks;
}

template <int most>
Outcome LaunchSum(const SumParts& args, void* stream) {
  Parts<most> held = {};
  held.count = args.count;
  bool aligned = Aligned(args.destination);
  for (int p = 0; p < args.count; ++p) {
    held.part[p] = args.parts[p];
    aligned = aligned && Aligned(args.parts[p]);
  }
  if (args.type == Type::kExact192) {
    return LaunchKernel(ExactSum<most>{held, args.elements, aligned, static_cast<Exact192*>(args.destination)},
                        CeilDivide(args.elements, ExactTile::kElements), ExactTile::kThreads, ExactTile::kBytes,
                        stream);
  }
  const int64_t blocks = BlocksFor(args.elements, kBlock);
  const Array to = {args.destination, args.type};
  return WithEights(args.type == Type::kFp64, aligned, {to}, {}, [&]<typename C, Type S>() {
    return LaunchKernel(Sum<C, S, most>{held, args.elements, aligned, to}, blocks, kThreads, 0, stream);
  });
}

}  // namespace

Outcome Launch(const SumParts& args, void* stream) {
  if (args.count < 1 || args.count > kMaxParts) return "a sum must have 1 to 256 parts";
  // Most sums have few parts. A kernel for up to eight parts then has far fewer addresses to pass.
  return args.count <= 8 ? LaunchSum<8>(args, stream) : LaunchSum<kMaxParts>(args, stream);
}

Outcome Launch(const AddValues& args, void* stream) {
  const Array &from = args.values, &to = args.destination;
  if (to.type == Type::kExact192) {
    auto* sums = static_cast<Exact192*>(to.data);
    if (from.type != Type::kExact192) return Launch(ExactTerms{from, args.elements, !args.accumulate, sums}, stream);
    const void* const parts[2] = {sums, from.data};
    if (args.accumulate) return Launch(SumParts{to.type, args.elements, parts, 2, sums}, stream);
    return Launch(SumParts{to.type, args.elements, parts + 1, 1, sums}, stream);
  }
  const bool aligned = Aligned(from.data) && Aligned(to.data);
  const int64_t blocks = BlocksFor(args.elements, kBlock);
  if (from.type == Type::kFp64 || to.type == Type::kFp64) {
    return LaunchKernel(Add<double>{args, aligned}, blocks, kThreads, 0, stream);
  }
  return LaunchKernel(Add<float>{args, aligned}, blocks, kThreads, 0, stream);
}

}  // namespace weft::exec::cuda
