#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/exact.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 4096;

struct Accumulate {
  static constexpr int kMaxThreads = kThreads;
  ExactTerms args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t step = thread.blocks() * thread.count();
    for (int64_t i = thread.block() * thread.count() + thread.index(); i < args.elements; i += step) {
      Exact192 sum = {{0, 0, 0}};
      if (!args.fresh) sum = args.accumulators[i];
      exact192::AddNumber(sum, Load<double>(args.x, i));
      args.accumulators[i] = sum;
    }
  }
};

struct Round {
  static constexpr int kMaxThreads = kThreads;
  ExactResult args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    // The subnormals of fp16 have fewer bits than its other numbers: what is stored of a number rounded to odd is
    // rounded once.
    const bool to_odd = args.y.type == Type::kFp16;
    const int precision = args.y.type == Type::kFp32 ? 24 : args.y.type == Type::kBf16 ? 8 : 53;
    const int64_t step = thread.blocks() * thread.count();
    for (int64_t i = thread.block() * thread.count() + thread.index(); i < args.elements; i += step) {
      Store(args.y, i, exact192::Rounded(args.accumulators[i], precision, to_odd));
    }
  }
};

struct Constant {
  static constexpr int kMaxThreads = kThreads;
  ExactConstant args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t step = thread.blocks() * thread.count();
    for (int64_t i = thread.block() * thread.count() + thread.index(); i < args.elements; i += step) {
      args.accumulators[i] = args.value;
    }
  }
};

int64_t BlocksFor(int64_t elements) {
  const int64_t blocks = CeilDivide(elements, kThreads);
  return blocks < kMostBlocks ? blocks : kMostBlocks;
}

}  // namespace

Outcome Launch(const ExactTerms& args, void* stream) {
  return LaunchKernel(Accumulate{args}, BlocksFor(args.elements), kThreads, 0, stream);
}

Outcome Launch(const ExactResult& args, void* stream) {
  return LaunchKernel(Round{args}, BlocksFor(args.elements), kThreads, 0, stream);
}

Outcome Launch(const ExactConstant& args, void* stream) {
  return LaunchKernel(Constant{args}, BlocksFor(args.elements), kThreads, 0, stream);
}

}  // namespace weft::cuda
