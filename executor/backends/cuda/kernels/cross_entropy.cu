// One block per row. The forward pass reads the logits once: each thread keeps the largest logit that it has met and
// the sum of exponentials relative to it (Milakov and Gimelshein 2018, arXiv:1805.02867); pairs are merged in an order
// that depends on the number of threads alone. The backward pass reads once and writes once, in place if asked to.
#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/block_fold.h"
#include "executor/backends/cuda/kernels/cross_entropy.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 512;

// A sum of exponentials is sum * exp(most); most = -infinity: nothing but -infinity has been met.
template <typename C>
struct ExpSum {
  C most, sum;
};

struct MergeExpSums {
  template <typename C>
  WEFT_DEVICE ExpSum<C> operator()(ExpSum<C> a, ExpSum<C> b) const {
    const C most = a.most > b.most ? a.most : b.most;
    // A sum that is NaN stays one.
    if (most == C(-INFINITY)) return {most, a.sum + b.sum};
    return {most, a.sum * Exp(a.most - most) + b.sum * Exp(b.most - most)};
  }
};

struct Add {
  WEFT_DEVICE double operator()(double a, double b) const { return a + b; }
};

// Adds the first `count` elements.
template <typename C>
WEFT_DEVICE void AddBlock(const C (&x)[kBlock], int64_t count, ExpSum<C>& sum) {
  C most = sum.most;
#pragma unroll
  for (int i = 0; i < kBlock; ++i) most = i < count && x[i] > most ? x[i] : most;
  if (most == C(-INFINITY)) {
#pragma unroll
    for (int i = 0; i < kBlock; ++i) sum.sum += i < count && !(x[i] == x[i]) ? x[i] : C(0);
    return;
  }
  if (most > sum.most) {
    sum.sum *= Exp(sum.most - most);
    sum.most = most;
  }
#pragma unroll
  for (int i = 0; i < kBlock; ++i) sum.sum += i < count ? Exp(x[i] - most) : C(0);
}

// Log-sum-exp of the row's columns that count, in all threads.
template <typename C, Type S, typename Thread>
WEFT_DEVICE C RowLogSumExp(Thread& thread, const Logits& logits, int64_t row) {
  const int64_t first = row * logits.columns, count = logits.vocabulary;
  const bool aligned = logits.columns % kBlock == 0;
  ExpSum<C> sum = {C(-INFINITY), C(0)};
  for (int64_t i = int64_t{kBlock} * thread.index(); i < count; i += int64_t{kBlock} * thread.count()) {
    C x[kBlock];
    LoadSome<C, S>(logits.values, first + i, count - i, aligned, x);
    AddBlock(x, count - i, sum);
  }
  sum = BlockFold(thread, 0, sum, MergeExpSums());
  return sum.most + Log(sum.sum);
}

template <typename C, Type S>
struct LogSumExp {
  static constexpr int kMaxThreads = kThreads;
  Logits logits;
  Array lse;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const C result = RowLogSumExp<C, S>(thread, logits, thread.block());
    if (thread.index() == 0) Store<C>(lse, thread.block(), result);
  }
};

template <typename C, Type S>
struct Partial {
  static constexpr int kMaxThreads = kThreads;
  LogitsPartial args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const Logits& logits = args.logits;
    const int64_t row = thread.block();
    const C result = RowLogSumExp<C, S>(thread, logits, row);
    if (thread.index() != 0) return;
    const int64_t target = logits.targets[row] - logits.column_shift;
    const bool here = logits.targets[row] >= 0 && target >= 0 && target < logits.vocabulary;
    Store<C>(args.pairs, 2 * row, result);
    Store<C>(args.pairs, 2 * row + 1, here ? Load<C, S>(logits.values, row * logits.columns + target) : C(0));
  }
};

template <typename C>
struct Loss {
  static constexpr int kMaxThreads = kThreads;
  LogitsLoss args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const Logits& logits = args.logits;
    double sum = 0;
    for (int64_t row = thread.index(); row < logits.rows; row += thread.count()) {
      const int64_t target = logits.targets[row];
      if (target < 0) continue;
      // Before they are subtracted both are in C: they are close, so the difference is all but exact.
      sum += target >= logits.vocabulary
                 ? static_cast<double>(NAN)
                 : static_cast<double>(Load<C>(args.lse, row)) -
                       static_cast<double>(Load<C>(logits.values, row * logits.columns + target));
    }
    sum = BlockFold(thread, 0, sum, Add());
    if (thread.index() == 0) *args.loss = args.weight * sum;
  }
};

template <typename C, Type S>
struct Backward {
  static constexpr int kMaxThreads = kThreads;
  LogitsGradient args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const Logits& logits = args.logits;
    const int64_t row = thread.block(), columns = logits.columns, first = row * columns;
    const bool aligned = columns % kBlock == 0, counts = logits.targets[row] >= 0;
    const int64_t target = logits.targets[row] - logits.column_shift;
    const C weight = static_cast<C>(args.scale == nullptr ? args.weight : args.weight * *args.scale);
    const C shift = counts ? Load<C>(args.lse, row) : C(0);
    for (int64_t i = int64_t{kBlock} * thread.index(); i < columns; i += int64_t{kBlock} * thread.count()) {
      C x[kBlock] = {};
      if (counts) {
        LoadSome<C, S>(logits.values, first + i, columns - i, aligned, x);
        // Of the block: columns that count, and the target's place.
        const int64_t inside = logits.vocabulary - i, hit = target - i;
#pragma unroll
        for (int b = 0; b < kBlock; ++b) {
          const C probability = weight * Exp(x[b] - shift);
          x[b] = b >= inside ? C(0) : b == hit ? probability - weight : probability;
        }
      }
      StoreSome<C, S>(args.dlogits, first + i, columns - i, aligned, x);
    }
  }
};

template <typename C>
struct Combine {
  static constexpr int kMaxThreads = kThreads;
  PartialsLoss p;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    double total = 0;
    for (int64_t row = thread.index(); row < p.rows; row += thread.count()) {
      C most = C(-INFINITY), sum = 0, target = 0;
      for (int64_t part = 0; part < p.parts; ++part) {
        const C one = Load<C>(p.pairs, 2 * (part * p.rows + row));
        most = one > most ? one : most;
        target += Load<C>(p.pairs, 2 * (part * p.rows + row) + 1);
      }
      for (int64_t part = 0; part < p.parts; ++part) {
        const C one = Load<C>(p.pairs, 2 * (part * p.rows + row));
        sum += one == C(-INFINITY) ? C(0) : Exp(one - most);
      }
      const C combined = most + Log(sum);
      Store<C>(p.lse, row, combined);
      if (p.targets[row] >= 0) total += static_cast<double>(combined) - static_cast<double>(target);
    }
    total = BlockFold(thread, 0, total, Add());
    if (thread.index() == 0) *p.loss = p.weight * total;
  }
};

template <typename V>
constexpr int64_t kFoldBytes = int64_t{kThreads} * int64_t{sizeof(V)};

}  // namespace

Outcome Launch(const LogitsLoss& args, void* stream) {
  const Logits& logits = args.logits;
  const Outcome outcome = WithTypes(logits.in_double, {logits.values}, [&]<typename C, Type S>() {
    return LaunchKernel(LogSumExp<C, S>{logits, args.lse}, logits.rows, kThreads, kFoldBytes<ExpSum<C>>, stream);
  });
  if (outcome != nullptr) return outcome;
  if (logits.in_double) return LaunchKernel(Loss<double>{args}, 1, kThreads, kFoldBytes<double>, stream);
  return LaunchKernel(Loss<float>{args}, 1, kThreads, kFoldBytes<double>, stream);
}

Outcome Launch(const LogitsPartial& args, void* stream) {
  const Logits& logits = args.logits;
  return WithTypes(logits.in_double, {logits.values}, [&]<typename C, Type S>() {
    return LaunchKernel(Partial<C, S>{args}, logits.rows, kThreads, kFoldBytes<ExpSum<C>>, stream);
  });
}

Outcome Launch(const PartialsLoss& args, void* stream) {
  if (args.in_double) return LaunchKernel(Combine<double>{args}, 1, kThreads, kFoldBytes<double>, stream);
  return LaunchKernel(Combine<float>{args}, 1, kThreads, kFoldBytes<double>, stream);
}

Outcome Launch(const LogitsGradient& args, void* stream) {
  return WithTypes(args.logits.in_double, {args.logits.values, args.dlogits}, [&]<typename C, Type S>() {
    return LaunchKernel(Backward<C, S>{args}, args.logits.rows, kThreads, 0, stream);
  });
}

}  // namespace weft::cuda
