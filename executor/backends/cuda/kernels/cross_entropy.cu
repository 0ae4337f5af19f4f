// One block per row. The forward pass reads the logits once: each thread keeps its largest logit so far and the sum of
// exponentials relative to it (Milakov and Gimelshein 2018, arXiv:1805.02867). These pairs are merged in an order that
// depends only on the number of threads. The backward pass reads the logits once and writes the gradient once; the
// gradient may overwrite the logits. Both passes load a thread's next logits before they use the current ones. The
// losses of rows are kept, and one block adds them up.
#include "executor/backends/cuda/kernels/block_fold.h"
#include "executor/backends/cuda/kernels/cross_entropy.h"
#include "executor/backends/cuda/kernels/eights.h"

namespace weft::exec::cuda {
namespace {

constexpr int kThreads = 512;

// Represents a sum of exponentials as sum * exp(most). If most is -infinity, all elements so far were -infinity.
template <typename C>
struct ExpSum {
  C most, sum;
};

struct MergeExpSums {
  template <typename C>
  WEFT_DEVICE ExpSum<C> operator()(ExpSum<C> a, ExpSum<C> b) const {
    const C most = a.most > b.most ? a.most : b.most;
    // If a sum is NaN, the result is NaN.
    if (most == C(-INFINITY)) return {most, a.sum + b.sum};
    return {most, a.sum * Exp(a.most - most) + b.sum * Exp(b.most - most)};
  }
};

struct Add {
  WEFT_DEVICE double operator()(double a, double b) const { return a + b; }
};

// Adds the first `count` of the eight elements.
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

// Adds eight elements that were stored in 16 bits. An exponential takes three instructions instead of ten; its error is
// a few units of fp32's last place, far below the rounding of the elements.
WEFT_DEVICE void AddEight(const float (&x)[kBlock], ExpSum<float>& sum) {
  constexpr float kLog2E = 1.4426950408889634f;
  float most = sum.most;
#pragma unroll
  for (int i = 0; i < kBlock; ++i) most = fmaxf(most, x[i]);
  // So far all elements are -infinity or NaN: the other function keeps a NaN.
  if (most == -INFINITY) return AddBlock(x, kBlock, sum);
  if (most > sum.most) {
    sum.sum *= Exp(sum.most - most);
    sum.most = most;
  }
  const float shift = -most * kLog2E;
#pragma unroll
  for (int i = 0; i < kBlock; ++i) sum.sum += PowerOfTwo(MultiplyAdd(x[i], kLog2E, shift));
}

// Returns the log-sum-exp of the row's columns that count, to all threads.
template <typename C, Type S, typename Thread>
WEFT_DEVICE C RowLogSumExp(Thread& thread, const Logits& logits, int64_t row) {
  const int64_t first = row * logits.columns, count = logits.vocabulary, step = int64_t{kBlock} * thread.count();
  const bool aligned = logits.columns % kBlock == 0;
  ExpSum<C> sum = {C(-INFINITY), C(0)};
  int64_t i = int64_t{kBlock} * thread.index();
  Eight<C, S> next;
  next.Ask(logits.values, first + i, count - i, aligned);
  for (; i < count; i += step) {
    C x[kBlock];
    next.Get(x);
    // The eight elements may include columns that do not count; AddBlock ignores them.
    next.Ask(logits.values, first + i + step, count - i - step, aligned);
    if constexpr (S == Type::kBf16 || S == Type::kFp16) {
      if (count - i >= kBlock) {
        AddEight(x, sum);
        continue;
      }
    }
    AddBlock(x, count - i, sum);
  }
  sum = BlockFold(thread, 0, sum, MergeExpSums());
  return sum.most + Log(sum.sum);
}

// Computes the log-sum-exp and the loss of a row.
template <typename C, Type S>
struct LogSumExp {
  static constexpr int kMaxThreads = kThreads;
  LogitsLoss args;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const Logits& logits = args.logits;
    const int64_t row = thread.block();
    const C result = RowLogSumExp<C, S>(thread, logits, row);
    if (thread.index() != 0) return;
    Store<C>(args.lse, row, result);
    const int64_t target = logits.targets[row];
    double loss = 0;
    if (target >= logits.vocabulary) {
      loss = static_cast<double>(NAN);
    } else if (target >= 0) {
      // lse is read as it is stored. The subtraction is in double, so that it adds almost no error if C is float.
      loss = static_cast<double>(Load<C>(args.lse, row)) -
             static_cast<double>(Load<C, S>(logits.values, row * logits.columns + target));
    }
    args.of_rows[row] = loss;
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

// Adds up the losses of all rows, in one block.
struct SumRows {
  static constexpr int kMaxThreads = 1024;
  static constexpr int kTogether = 8;
  const double* of_rows;
  int64_t rows;
  double weight;
  double* loss;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    double sum = 0;
    for (int64_t row = thread.index(); row < rows; row += kTogether * kMaxThreads) {
      double part[kTogether];
#pragma unroll
      for (int k = 0; k < kTogether; ++k) part[k] = row + k * kMaxThreads < rows ? of_rows[row + k * kMaxThreads] : 0.0;
#pragma unroll
      for (int k = 0; k < kTogether; ++k) sum += part[k];
    }
    sum = BlockFold(thread, 0, sum, Add());
    if (thread.index() == 0) *loss = weight * sum;
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
    const int64_t step = int64_t{kBlock} * thread.count();
    int64_t i = int64_t{kBlock} * thread.index();
    Eight<C, S> next;
    next.Ask(logits.values, first + i, counts ? columns - i : 0, aligned);
    for (; i < columns; i += step) {
      C x[kBlock];
      next.Get(x);
      // If the gradient is written in place of the logits, the next load is still correct: these logits are not
      // overwritten yet, and only this thread overwrites them.
      next.Ask(logits.values, first + i + step, counts ? columns - i - step : 0, aligned);
      // The number of these eight columns that count, and the index of the target among them.
      const int64_t inside = logits.vocabulary - i, hit = target - i;
#pragma unroll
      for (int b = 0; b < kBlock; ++b) {
        const C probability = weight * Exp(x[b] - shift);
        x[b] = !counts || b >= inside ? C(0) : b == hit ? probability - weight : probability;
      }
      StoreEight<C, S>(args.dlogits, first + i, columns - i, aligned, x);
    }
  }
};

template <typename C>
struct Combine {
  static constexpr int kMaxThreads = kThreads;
  PartialsLoss p;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t row = thread.block() * thread.count() + thread.index();
    if (row >= p.rows) return;
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
    p.of_rows[row] = p.targets[row] >= 0 ? static_cast<double>(combined) - static_cast<double>(target) : 0.0;
  }
};

template <typename V>
constexpr int64_t kFoldBytes = int64_t{kThreads} * int64_t{sizeof(V)};

Outcome LaunchSum(const double* of_rows, int64_t rows, double weight, double* loss, void* stream) {
  constexpr int kMax = SumRows::kMaxThreads;
  return LaunchKernel(SumRows{of_rows, rows, weight, loss}, 1, kMax, kMax * int64_t{sizeof(double)}, stream);
}

}  // namespace

Outcome Launch(const LogitsLoss& args, void* stream) {
  const Logits& logits = args.logits;
  const bool whole = logits.columns % kBlock == 0;
  const Outcome outcome = WithEights(logits.in_double, whole, {logits.values}, {}, [&]<typename C, Type S>() {
    return LaunchKernel(LogSumExp<C, S>{args}, logits.rows, kThreads, kFoldBytes<ExpSum<C>>, stream);
  });
  if (outcome != nullptr) return outcome;
  return LaunchSum(args.of_rows, logits.rows, args.weight, args.loss, stream);
}

Outcome Launch(const LogitsPartial& args, void* stream) {
  const Logits& logits = args.logits;
  const bool whole = logits.columns % kBlock == 0;
  return WithEights(logits.in_double, whole, {logits.values}, {}, [&]<typename C, Type S>() {
    return LaunchKernel(Partial<C, S>{args}, logits.rows, kThreads, kFoldBytes<ExpSum<C>>, stream);
  });
}

Outcome Launch(const PartialsLoss& args, void* stream) {
  const int64_t blocks = CeilDivide(args.rows, kThreads);
  const Outcome outcome = args.in_double ? LaunchKernel(Combine<double>{args}, blocks, kThreads, 0, stream)
                                         : LaunchKernel(Combine<float>{args}, blocks, kThreads, 0, stream);
  if (outcome != nullptr) return outcome;
  return LaunchSum(args.of_rows, args.rows, args.weight, args.loss, stream);
}

Outcome Launch(const LogitsGradient& args, void* stream) {
  const Logits& logits = args.logits;
  const bool whole = logits.columns % kBlock == 0;
  return WithEights(logits.in_double, whole, {logits.values, args.dlogits}, {}, [&]<typename C, Type S>() {
    return LaunchKernel(Backward<C, S>{args}, logits.rows, kThreads, 0, stream);
  });
}

}  // namespace weft::exec::cuda
