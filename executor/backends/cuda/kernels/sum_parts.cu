// Every element is summed by one thread, so that a part may be overwritten in place.
#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/exact.h"
#include "executor/backends/cuda/kernels/sum_parts.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 4096;

// By value, so that no memory of the host has to outlive the launch.
template <int most>
struct Parts {
  const void* part[most];
  int count;

  WEFT_DEVICE Array At(int p, Type type) const { return {const_cast<void*>(part[p]), type}; }
};

template <typename C, int most>
struct Sum {
  static constexpr int kMaxThreads = kThreads;
  Parts<most> parts;
  int64_t elements;
  // Pieces of collectives begin anywhere: whether all of these allow for loads of eight elements.
  bool aligned;
  Array destination;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t step = thread.blocks() * thread.count() * kBlock;
    int64_t first = (thread.block() * thread.count() + thread.index()) * kBlock;
    for (; first < elements; first += step) {
      C sum[kBlock];
      LoadSome(parts.At(0, destination.type), first, elements - first, aligned, sum);
      for (int p = 1; p < parts.count; ++p) {
        C term[kBlock];
        LoadSome(parts.At(p, destination.type), first, elements - first, aligned, term);
#pragma unroll
        for (int i = 0; i < kBlock; ++i) sum[i] += term[i];
      }
      StoreSome(destination, first, elements - first, aligned, sum);
    }
  }
};

template <int most>
struct ExactSum {
  static constexpr int kMaxThreads = kThreads;
  Parts<most> parts;
  int64_t elements;
  Exact192* destination;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t step = thread.blocks() * thread.count();
    for (int64_t i = thread.block() * thread.count() + thread.index(); i < elements; i += step) {
      Exact192 sum = static_cast<const Exact192*>(parts.part[0])[i];
      for (int p = 1; p < parts.count; ++p) exact192::Merge(sum, static_cast<const Exact192*>(parts.part[p])[i]);
      destination[i] = sum;
    }
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
  return blocks < kMostBlocks ? blocks : kMostBlocks;
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
    return LaunchKernel(ExactSum<most>{held, args.elements, static_cast<Exact192*>(args.destination)},
                        BlocksFor(args.elements, 1), kThreads, 0, stream);
  }
  const int64_t blocks = BlocksFor(args.elements, kBlock);
  const Array to = {args.destination, args.type};
  if (args.type == Type::kFp64) {
    return LaunchKernel(Sum<double, most>{held, args.elements, aligned, to}, blocks, kThreads, 0, stream);
  }
  return LaunchKernel(Sum<float, most>{held, args.elements, aligned, to}, blocks, kThreads, 0, stream);
}

}  // namespace

Outcome Launch(const SumParts& args, void* stream) {
  if (args.count < 1 || args.count > kMostParts) return "a sum of no parts, or of more than 256";
  // Most groups are small: few addresses to pass.
  return args.count <= 8 ? LaunchSum<8>(args, stream) : LaunchSum<kMostParts>(args, stream);
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

}  // namespace weft::cuda
