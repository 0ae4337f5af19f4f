// Two stages: blocks sum pieces of a tensor, then one block adds the pieces.
#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/block_fold.h"
#include "executor/backends/cuda/kernels/gradient_norm.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;
// Elements below which another piece does not pay.
constexpr int64_t kLeastPiece = int64_t{kThreads} * kBlock * 4;

int64_t PiecesOf(int64_t elements) {
  const int64_t pieces = CeilDivide(elements, kLeastPiece);
  return pieces < 1 ? 1 : pieces < kMostNormPieces ? pieces : kMostNormPieces;
}

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

template <typename Way>
struct Pieces {
  static constexpr int kMaxThreads = kThreads;
  Array x;
  int64_t elements;
  typename Way::Sum* sums;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    auto sum = Way::Zero();
    const int64_t step = thread.blocks() * thread.count() * kBlock;
    int64_t first = (thread.block() * thread.count() + thread.index()) * kBlock;
    for (; first < elements; first += step) {
      double values[kBlock];
      LoadSome(x, first, elements - first, true, values);
      for (int i = 0; i < kBlock; ++i) Way::AddSquare(sum, values[i]);
    }
    sum = BlockFold(thread, 0, sum, Way());
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
    auto sum = Way::Zero();
    for (int64_t i = thread.index(); i < count; i += thread.count()) sum = Way()(sum, sums[i]);
    sum = BlockFold(thread, 0, sum, Way());
    if (thread.index() == 0) *norm = sum;
  }
};

template <typename Way>
Outcome LaunchNorm(const SumOfSquares& args, typename Way::Sum* norm, void* stream) {
  using Sum = typename Way::Sum;
  const int64_t pieces = PiecesOf(args.elements), bytes = int64_t{kThreads} * int64_t{sizeof(Sum)};
  // Most tensors are small: one piece is the norm.
  auto* sums = pieces == 1 ? norm : static_cast<Sum*>(args.scratch);
  const Outcome outcome = LaunchKernel(Pieces<Way>{args.x, args.elements, sums}, pieces, kThreads, bytes, stream);
  if (outcome != nullptr || pieces == 1) return outcome;
  return LaunchKernel(AddPieces<Way>{sums, pieces, norm}, 1, kThreads, bytes, stream);
}

// One thread adds the norms in their order, from memory that all threads fill.
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
        norms[thread.index()] =
            args.exact_norms != nullptr ? exact192::Rounded(args.exact_norms[i], 53, false) : args.norms[i];
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
    // Neither an infinity nor NaN.
    const bool finite = norm - norm == 0;
    args.norm[0] = norm;
    args.norm[1] = args.scale != nullptr && !finite ? 0 : factor;
  }
};

}  // namespace

Outcome Launch(const SumOfSquares& args, void* stream) {
  if (args.exact_norm != nullptr) return LaunchNorm<Exactly>(args, args.exact_norm, stream);
  return LaunchNorm<InDouble>(args, args.norm, stream);
}

Outcome Launch(const NormOfAll& args, void* stream) {
  return LaunchKernel(Total{args}, 1, kThreads, int64_t{kThreads} * int64_t{sizeof(double)}, stream);
}

}  // namespace weft::cuda
