// Two stages: blocks sum pieces of a tensor, then one block adds the sums of the pieces.
#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/block_fold.h"
#include "executor/backends/cuda/kernels/eights.h"
#include "executor/backends/cuda/kernels/gradient_norm.h"
#include "executor/backends/cuda/kernels/tile_walk.h"

namespace weft::exec::cuda {
namespace {

constexpr int kThreads = 256;
static_assert(kMinNormPiece == int64_t{kThreads} * kBlock * 4);

// How squares are summed: in double, or exactly.
struct InDouble {
  using Sum = double;
  static WEFT_DEVICE double Zero() { return 0; }
  static WEFT_DEVICE void AddSquare(double& sum, double x) { sum += x * x; }
  WEFT_DEVICE double operator()(double a, double b) const { return a + b; }
};
struct Exactly {
  using Sum = Exact192;
  static WEFT_DEVICE Exact192 Zero() { return Exact192{{0, 0, 0}}; }
  static WEFT_DEVICE void AddSquare(Exact192& sum, double x) { exact192::AddNumber(sum, x * x); }
  WEFT_DEVICE Exact192 operator()(Exact192 a, const Exact192& b) const {
    exact192::Merge(a, b);
    return a;
  }
};

// Returns the sum of a piece to all threads of its block. The tensor consists of runs that hold eight elements for each
// thread of a block. With n pieces, piece p sums runs p, p + n, p + 2 n, and so on. So a thread advances by `step`
// elements.
template <typename Way, Type S, typename Thread>
WEFT_DEVICE typename Way::Sum SumOfPiece(Thread& thread, const Array& x, int64_t elements, int64_t piece,
                                         int64_t pieces) {
  // Eights loaded at a time.
  constexpr int kEights = S == Type::kNone ? 1 : 4;
  auto sum = Way::Zero();
  const int64_t step = pieces * thread.count() * kBlock;
  int64_t first = (piece * thread.count() + thread.index()) * kBlock;
  double values[kBlock];
  if constexpr (S != Type::kNone) {
    for (; first + (kEights - 1) * step + kBlock <= elements; first += kEights * step) {
      Eight<double, S> eights[kEights];
#pragma unroll
      for (int k = 0; k < kEights; ++k) eights[k].Ask(x, first + k * step, kBlock, true);
#pragma unroll
      for (int k = 0; k < kEights; ++k) {
        eights[k].Get(values);
        for (int i = 0; i < kBlock; ++i) Way::AddSquare(sum, values[i]);
      }
    }
  }
  for (; first < elements; first += step) {
    LoadSome(x, first, elements - first, true, values);
    for (int i = 0; i < kBlock; ++i) Way::AddSquare(sum, values[i]);
  }
  return BlockFold(thread, 0, sum, Way());
}

// Returns the sum of the pieces' sums.
template <typename Way, typename Thread>
WEFT_DEVICE typename Way::Sum SumOfSums(Thread& thread, const typename Way::Sum* sums, int64_t count) {
  auto sum = Way::Zero();
  for (int64_t i = thread.index(); i < count; i += thread.count()) sum = Way()(sum, sums[i]);
  return BlockFold(thread, 0, sum, Way());
}

// S is the storage type of all tensors of the launch (eights.h).
template <typename Way, Type S>
struct Pieces {
  static constexpr int kMaxThreads = kThreads;
  Array x;
  int64_t elements;
  typename Way::Sum* sums;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const auto sum = SumOfPiece<Way, S>(thread, x, elements, thread.block(), thread.blocks());
    if (thread.index() == 0) sums[thread.block()] = sum;
  }
};

template <typename Way>
struct AddPieces {
  static constexpr int kMaxThreads = kThreads;
  const typename Way::Sum* sums;
  int64_t count;
  typename Way::Sum* norm;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const auto sum = SumOfSums<Way>(thread, sums, count);
    if (thread.index() == 0) *norm = sum;
  }
};

// Sums the squares of every piece of every tensor, with one block for each piece.
template <typename Way, Type S>
struct PiecesOfTensors {
  static constexpr int kMaxThreads = kThreads;
  TensorTable<SquaredTensor> table;
  typename Way::Sum* sums;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t t = TensorOfTile(table, thread.block()), begin = t > 0 ? table.ends[t - 1] : 0;
    const SquaredTensor& tensor = table.tensors[t];
    const auto sum =
        SumOfPiece<Way, S>(thread, tensor.x, tensor.elements, thread.block() - begin, table.ends[t] - begin);
    if (thread.index() == 0) sums[thread.block()] = sum;
  }
};

// Adds the sums of each tensor's pieces, with one block for every tensor.
template <typename Way>
struct AddPiecesOfTensors {
  static constexpr int kMaxThreads = kThreads;
  TensorTable<SquaredTensor> table;
  const typename Way::Sum* sums;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t t = thread.block(), begin = t > 0 ? table.ends[t - 1] : 0, count = table.ends[t] - begin;
    // If there is only one piece, its sum is already the result.
    const auto sum = count == 1 ? sums[begin] : SumOfSums<Way>(thread, sums + begin, count);
    if (thread.index() == 0) *static_cast<typename Way::Sum*>(table.tensors[t].norm) = sum;
  }
};

template <typename Way, Type S>
Outcome LaunchNorm(const SumOfSquares& args, typename Way::Sum* norm, void* stream) {
  using Sum = typename Way::Sum;
  const int64_t pieces = NormPiecesOf(args.elements), bytes = int64_t{kThreads} * int64_t{sizeof(Sum)};
  // Most tensors are small and have one piece; its sum is written directly to the result.
  auto* sums = pieces == 1 ? norm : static_cast<Sum*>(args.scratch);
  const Outcome outcome = LaunchKernel(Pieces<Way, S>{args.x, args.elements, sums}, pieces, kThreads, bytes, stream);
  if (outcome != nullptr || pieces == 1) return outcome;
  return LaunchKernel(AddPieces<Way>{sums, pieces, norm}, 1, kThreads, bytes, stream);
}

template <typename Way, Type S>
Outcome LaunchNorms(const SumsOfSquares& args, void* stream) {
  using Sum = typename Way::Sum;
  const int64_t bytes = int64_t{kThreads} * int64_t{sizeof(Sum)};
  auto* const sums = static_cast<Sum*>(args.scratch);
  const Outcome outcome =
      LaunchKernel(PiecesOfTensors<Way, S>{args.table, sums}, args.table.tiles, kThreads, bytes, stream);
  if (outcome != nullptr) return outcome;
  return LaunchKernel(AddPiecesOfTensors<Way>{args.table, sums}, args.table.count, kThreads, bytes, stream);
}

// One thread adds the norms in order, from shared memory that all threads fill.
struct Total {
  static constexpr int kMaxThreads = kThreads;
  NormOfAll args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const auto norms = thread.template Shared<double>(0, kThreads);
    double total = 0;
    for (int64_t first = 0; first < args.count; first += kThreads) {
      const int64_t i = first + thread.index();
      if (i < args.count) {
        norms.Put(thread.index(),
                  args.exact_norms != nullptr ? exact192::Rounded(args.exact_norms[i], 53, false) : args.norms[i]);
      }
      thread.Sync();
      if (thread.index() == 0) {
        const int64_t count = Least(args.count - first, int64_t{kThreads});
        for (int64_t n = 0; n < count; ++n) total += norms[n];
      }
      thread.Sync();
    }
    if (thread.index() == 0) Finish(total);
  }

  WEFT_DEVICE void Finish(double total) const {
    const double scale = args.scale != nullptr ? args.scale[0] : args.fixed_scale;
    const double norm = sqrt(total) / scale;
    const double factor = (args.clip_norm == 0 ? 1 : Least(1.0, args.clip_norm / (norm + 1e-6))) / scale;
    // False for infinities and NaN.
    const bool finite = norm - norm == 0;
    args.norm[0] = norm;
    args.norm[1] = args.scale != nullptr && !finite ? 0 : factor;
  }
};

}  // namespace

Outcome Launch(const SumOfSquares& args, void* stream) {
  // Exact sums are bound by arithmetic, not by memory, so they need no kernel for each storage type.
  if (args.exact_norm != nullptr) return LaunchNorm<Exactly, Type::kNone>(args, args.exact_norm, stream);
  switch (args.x.type) {
    case Type::kFp32:
      return LaunchNorm<InDouble, Type::kFp32>(args, args.norm, stream);
    case Type::kBf16:
      return LaunchNorm<InDouble, Type::kBf16>(args, args.norm, stream);
    default:
      return LaunchNorm<InDouble, Type::kNone>(args, args.norm, stream);
  }
}

Outcome Launch(const SumsOfSquares& args, void* stream) {
  if (args.exact) return LaunchNorms<Exactly, Type::kNone>(args, stream);
  switch (args.type) {
    case Type::kFp32:
      return LaunchNorms<InDouble, Type::kFp32>(args, stream);
    case Type::kBf16:
      return LaunchNorms<InDouble, Type::kBf16>(args, stream);
    default:
      return LaunchNorms<InDouble, Type::kNone>(args, stream);
  }
}

Outcome Launch(const NormOfAll& args, void* stream) {
  return LaunchKernel(Total{args}, 1, kThreads, int64_t{kThreads} * int64_t{sizeof(double)}, stream);
}

}  // namespace weft::exec::cuda
