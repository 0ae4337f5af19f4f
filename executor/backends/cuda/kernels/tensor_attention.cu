// Attention without a matrix of scores (Dao 2023, arXiv:2307.08691). It is deterministic: one warp sums every result in
// a fixed order. A block has 64 queries and loops over tiles of 64 keys; for the gradients of k and v it has 64 keys
// and loops over tiles of 64 queries. Each warp has sixteen of the block's rows. Probabilities and their gradients are
// rounded to half precision before they are multiplied, as in cuDNN.
#include "executor/backends/cuda/kernels/attention_tiles.h"
#include "executor/backends/cuda/kernels/flash_attention.h"

namespace weft::exec::cuda {
namespace {

using namespace tiles;

template <Type S, int D>
struct Forward {
  static constexpr int kMaxThreads = kThreads;
  static constexpr int kKeys = 0, kValues = Layout<D>::kRowWords;
  static constexpr int64_t kSharedBytes = int64_t{4} * (kValues + Layout<D>::kTransposedWords);
  AttentionProblem a;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const Place<S, D> place(a, a.shape.heads, true, thread);
    const int64_t kv = Divide(place.head, a.shape.group()), query = place.first + thread.warp() * 16;
    const auto rows = thread.template Shared<uint32_t>(4 * kKeys, Layout<D>::kRowWords);
    const auto values = thread.template Shared<uint32_t>(int64_t{4} * kValues, Layout<D>::kTransposedWords);
    LoadTile<D>(thread, a.shape, place.RowsOf(a.q, place.head), place.first, kKeys, -1);
    thread.Sync();
    MmaLeft q[D / 16];
#pragma unroll
    for (int step = 0; step < D / 16; ++step) {
      q[step] = LeftOf(rows, Layout<D>::kPitch, thread.warp() * 16, step, thread.lane());
    }
    const auto scale = static_cast<float>(a.scale);
    float most[2] = {-INFINITY, -INFINITY}, total[2] = {};
    MmaSums o[D / 8] = {};
    for (int64_t first = place.FirstKey(); first < place.EndOfKeys(); first += kTile) {
      thread.Sync();
      LoadTile<D>(thread, a.shape, place.RowsOf(a.k, kv), first, kKeys, -1);
      LoadTile<D>(thread, a.shape, place.RowsOf(a.v, kv), first, -1, kValues);
      thread.Sync();
      MmaSums p[kBlocks];
      Scores<S, D>(thread, [&](int step) { return q[step]; }, rows, p);
      float rest[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float highest = most[r];
#pragma unroll
        for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            float& score = p[n].sum[2 * r + c];
            score = place.Sees(thread, query, first, n, r, c) ? score * scale : -INFINITY;
            highest = Largest(highest, score);
          }
        }
        highest = Largest(highest, thread.ShuffleXor(highest, 1));
        highest = Largest(highest, thread.ShuffleXor(highest, 2));
        rest[r] = most[r] == -INFINITY ? 0.0f : Exp(most[r] - highest);
        most[r] = highest;
        total[r] *= rest[r];
      }
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) {
        const uint32_t kept = KeptOfQueries(thread, place, query, first + 8 * n);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float score = p[n].sum[i], one = score == -INFINITY ? 0.0f : Exp(score - most[i / 2]);
          total[i / 2] += one;
          p[n].sum[i] = (kept >> i & 1) != 0 ? one : 0.0f;
        }
      }
#pragma unroll
      for (MmaSums& one : o) {
#pragma unroll
        for (int i = 0; i < 4; ++i) one.sum[i] *= rest[i / 2];
      }
      AddRows<S, D>(thread, p, values, o);
    }
    float factors[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      total[r] = QuadSum(thread, total[r]);
      // The factor also contains the dropout factor, which is the same for all kept keys.
      factors[r] = (a.dropout.threshold == 0 ? 1.0f : place.Factor()) / total[r];
      const int64_t at = query + thread.lane() / 4 + 8 * r;
      if (thread.lane() % 4 == 0 && at < a.shape.sequence) {
        static_cast<float*>(a.lse.data)[place.StatisticOf(at, place.head)] = most[r] + Log(total[r]);
      }
    }
    StoreRows<S, D>(thread, a.shape, place.RowsOf(a.o, place.head), query, o, factors);
  }
};

// With p = softmax(scale * q k^T), r = dropout(p), o = r v:
//   dv = r^T do,  dr = do v^T,  dp = dropout(dr),  ds = p * (dp - sum(do * o)) * scale,  dq = ds k,  dk = ds^T q.
//
// Returns the sum of do * o of a query over every `step`-th eight, from eight `first` on.
template <Type S>
WEFT_DEVICE float ShiftPart(const HeadShape& shape, const HeadRows& d_o, const HeadRows& o, int64_t query, int first,
                            int step) {
  float sum = 0;
  if (query >= shape.sequence) return sum;
#pragma unroll 2
  for (int e = first; e * kBlock < shape.width; e += step) {
    const Words x = d_o.Eight(query, e), y = o.Eight(query, e);
#pragma unroll
    for (int i = 0; i < kBlock; ++i) sum += Number<S>(x, i) * Number<S>(y, i);
  }
  return sum;
}

template <Type S, int D>
struct QueryGradient {
  static constexpr int kMaxThreads = kThreads;
  static constexpr int kKeys = 0, kValues = Layout<D>::kRowWords, kTransposed = 2 * Layout<D>::kRowWords;
  static constexpr int64_t kSharedBytes = int64_t{4} * (kTransposed + Layout<D>::kTransposedWords);
  AttentionGradient g;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const AttentionProblem& a = g.problem;
    const Place<S, D> place(a, a.shape.heads, true, thread);
    const int64_t kv = Divide(place.head, a.shape.group()), query = place.first + thread.warp() * 16;
    constexpr int kPitch = Layout<D>::kPitch;
    const auto keys = thread.template Shared<uint32_t>(4 * kKeys, Layout<D>::kRowWords);
    const auto values = thread.template Shared<uint32_t>(int64_t{4} * kValues, Layout<D>::kRowWords);
    const auto transposed = thread.template Shared<uint32_t>(int64_t{4} * kTransposed, Layout<D>::kTransposedWords);
    const HeadRows d_o = place.RowsOf(g.d_o, place.head);
    LoadTile<D>(thread, a.shape, place.RowsOf(a.q, place.head), place.first, kKeys, -1);
    LoadTile<D>(thread, a.shape, d_o, place.first, kValues, -1);
    thread.Sync();
    MmaLeft q[D / 16], of_do[D / 16];
#pragma unroll
    for (int step = 0; step < D / 16; ++step) {
      q[step] = LeftOf(keys, kPitch, thread.warp() * 16, step, thread.lane());
      of_do[step] = LeftOf(values, kPitch, thread.warp() * 16, step, thread.lane());
    }
    const auto scale = static_cast<float>(a.scale);
    const float factor = a.dropout.threshold == 0 ? 1.0f : place.Factor();
    float lse[2], shift[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int64_t at = query + thread.lane() / 4 + 8 * r;
      shift[r] = QuadSum(thread, ShiftPart<S>(a.shape, d_o, place.RowsOf(a.o, place.head), at, thread.lane() % 4, 4));
      lse[r] = at < a.shape.sequence ? static_cast<const float*>(a.lse.data)[place.StatisticOf(at, place.head)] : 0.0f;
    }
    MmaSums dq[D / 8] = {};
    for (int64_t first = place.FirstKey(); first < place.EndOfKeys(); first += kTile) {
      thread.Sync();
      LoadTile<D>(thread, a.shape, place.RowsOf(a.k, kv), first, kKeys, kTransposed);
      LoadTile<D>(thread, a.shape, place.RowsOf(a.v, kv), first, kValues, -1);
      thread.Sync();
      MmaSums s[kBlocks], dp[kBlocks];
      Scores<S, D>(thread, [&](int step) { return q[step]; }, keys, s);
      Scores<S, D>(thread, [&](int step) { return of_do[step]; }, values, dp);
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) {
        const uint32_t kept = KeptOfQueries(thread, place, query, first + 8 * n);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const bool sees = place.Sees(thread, query, first, n, i / 2, i % 2);
          const float p = sees ? Exp(s[n].sum[i] * scale - lse[i / 2]) : 0.0f;
          const float dropped = (kept >> i & 1) != 0 ? dp[n].sum[i] * factor : 0.0f;
          s[n].sum[i] = sees ? p * (dropped - shift[i / 2]) * scale : 0.0f;
        }
      }
      AddRows<S, D>(thread, s, transposed, dq);
    }
    const float ones[2] = {1, 1};
    StoreRows<S, D>(thread, a.shape, place.RowsOf(g.dq, place.head), query, dq, ones);
  }
};

// The tile holds keys. Sums run over the heads of q that share the tile, in ascending order, then over queries.
template <Type S, int D>
struct KeyGradient {
  static constexpr int kMaxThreads = kThreads;
  static constexpr int kRows = Layout<D>::kRowWords, kColumns = Layout<D>::kTransposedWords;
  // Offsets in shared memory: k, v, q, do, transposed q, transposed do, then lse and shift of the queries.
  static constexpr int kKeys = 0, kValues = kRows, kQueries = 2 * kRows, kOut = 3 * kRows,
                       kTransposedQueries = 4 * kRows;
  static constexpr int kTransposedOut = kTransposedQueries + kColumns, kStatistics = kTransposedOut + kColumns;
  static constexpr int64_t kSharedBytes = int64_t{4} * (kStatistics + 2 * kTile);
  AttentionGradient g;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const AttentionProblem& a = g.problem;
    const Place<S, D> place(a, a.shape.kv_heads, false, thread);
    LoadTile<D>(thread, a.shape, place.RowsOf(a.k, place.head), place.first, kKeys, -1);
    LoadTile<D>(thread, a.shape, place.RowsOf(a.v, place.head), place.first, kValues, -1);
    MmaSums dk[D / 8] = {}, dv[D / 8] = {};
    for (int64_t member = 0; member < a.shape.group(); ++member) {
      const int64_t head = place.head * a.shape.group() + member;
      for (int64_t first = place.FirstQuery(); first < place.EndOfQueries(); first += kTile) {
        AddQueries(thread, place, head, first, dk, dv);
      }
    }
    // dv is multiplied by the dropout factor once, at the end, instead of each probability.
    const float ones[2] = {1, 1}, factor = a.dropout.threshold == 0 ? 1.0f : place.Factor();
    const float factors[2] = {factor, factor};
    const int64_t row = place.first + thread.warp() * 16;
    StoreRows<S, D>(thread, a.shape, place.RowsOf(g.dk, place.head), row, dk, ones);
    StoreRows<S, D>(thread, a.shape, place.RowsOf(g.dv, place.head), row, dv, factors);
  }

  template <typename Thread>
  WEFT_DEVICE void AddQueries(Thread& thread, const Place<S, D>& place, int64_t head, int64_t first,
                              MmaSums (&dk)[D / 8], MmaSums (&dv)[D / 8]) const {
    const AttentionProblem& a = g.problem;
    constexpr int kPitch = Layout<D>::kPitch;
    const auto rows = [&](int word) { return thread.template Shared<uint32_t>(int64_t{4} * word, kRows); };
    const auto transposed = [&](int word) { return thread.template Shared<uint32_t>(int64_t{4} * word, kColumns); };
    const auto statistics = thread.template Shared<float>(int64_t{4} * kStatistics, 2 * kTile);
    const HeadRows d_o = place.RowsOf(g.d_o, head);
    // Wait until all threads have read the previous tile, which the loads below overwrite.
    thread.Sync();
    LoadTile<D>(thread, a.shape, place.RowsOf(a.q, head), first, kQueries, kTransposedQueries);
    LoadTile<D>(thread, a.shape, d_o, first, kOut, kTransposedOut);
    const int of_tile = thread.index() / 2;
    float shift = ShiftPart<S>(a.shape, d_o, place.RowsOf(a.o, head), first + of_tile, thread.index() % 2, 2);
    shift += thread.ShuffleXor(shift, 1);
    if (thread.index() % 2 == 0) {
      const bool inside = first + of_tile < a.shape.sequence;
      statistics.Put(of_tile,
                     inside ? static_cast<const float*>(a.lse.data)[place.StatisticOf(first + of_tile, head)] : 0.0f);
      statistics.Put(kTile + of_tile, shift);
    }
    thread.Sync();
    const auto left = [&](int word) {
      return [&thread, tile = rows(word)](int step) {
        return LeftOf(tile, kPitch, thread.warp() * 16, step, thread.lane());
      };
    };
    MmaSums s[kBlocks], dp[kBlocks];
    Scores<S, D>(thread, left(kKeys), rows(kQueries), s);
    Scores<S, D>(thread, left(kValues), rows(kOut), dp);
    const auto scale = static_cast<float>(a.scale);
    const float factor = a.dropout.threshold == 0 ? 1.0f : place.Factor();
    const int64_t key = place.first + thread.warp() * 16;
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      const uint32_t kept = KeptOfKeys(thread, place, head, first + 8 * n, key);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int of_query = 8 * n + thread.lane() % 4 * 2 + i % 2;
        const bool sees = place.Sees(first + of_query, key + thread.lane() / 4 + i / 2 * 8),
                   keeps = (kept >> i & 1) != 0;
        const float p = sees ? Exp(s[n].sum[i] * scale - statistics[of_query]) : 0.0f;
        const float dropped = keeps ? dp[n].sum[i] * factor : 0.0f;
        s[n].sum[i] = sees ? p * (dropped - statistics[kTile + of_query]) * scale : 0.0f;
        dp[n].sum[i] = keeps ? p : 0.0f;
      }
    }
    AddRows<S, D>(thread, s, transposed(kTransposedQueries), dk);
    AddRows<S, D>(thread, dp, transposed(kTransposedOut), dv);
  }
};

bool IsAligned(const HeadPart& part) {
  const auto first = reinterpret_cast<uintptr_t>(part.array.data) + 2 * static_cast<uintptr_t>(part.first_column);
  return first % 16 == 0 && part.stride % kBlock == 0 && part.head_step % kBlock == 0;
}

// True if the kernels support the problem: one half-precision type, and heads of whole eights, up to 128 columns,
// aligned to 16 bytes.
bool Takes(const AttentionProblem& a, std::initializer_list<HeadPart> more) {
  const Type type = a.q.array.type;
  bool takes = !a.in_double && (type == Type::kBf16 || type == Type::kFp16) && a.lse.type == Type::kFp32 &&
               a.shape.width % kBlock == 0 && a.shape.width <= 128;
  for (const auto& parts : {std::initializer_list<HeadPart>{a.q, a.k, a.v, a.o}, more}) {
    for (const HeadPart& part : parts) takes = takes && part.array.type == type && IsAligned(part);
  }
  return takes;
}

// Returns the largest shared memory that a block may have. Devices of compute
// capability 8.6, 8.9 and 12.0 allow 99 KiB, less than those of 8.0 (163 KiB), 9.0 and 10.0 (227 KiB).
int64_t MaxSharedBytes() {
#ifdef __CUDACC__
  int device = 0, bytes = 0;
  if (cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess) {
    return bytes;
  }
  // Clear the error: the launch reports it again, and later calls must not find it.
  cudaGetLastError();
#endif
  return int64_t{163} * 1024;
}

template <typename Kernel>
Outcome LaunchTiles(const Kernel& kernel, const HeadShape& shape, int64_t heads, void* stream) {
  const int64_t blocks = shape.sequences * heads * CeilDivide(shape.sequence, kTile);
  return LaunchKernel(kernel, blocks, kThreads, Kernel::kSharedBytes, stream);
}

// Calls f.template operator()<S, D>().
template <typename F>
Outcome WithHeads(const AttentionProblem& a, F f) {
  const bool narrow = a.shape.width <= 64;
  if (a.q.array.type == Type::kBf16) {
    return narrow ? f.template operator()<Type::kBf16, 64>() : f.template operator()<Type::kBf16, 128>();
  }
  return narrow ? f.template operator()<Type::kFp16, 64>() : f.template operator()<Type::kFp16, 128>();
}

}  // namespace

bool OnTensorCores(const AttentionForward& args) { return Takes(args.problem, {}); }

Outcome Launch(const AttentionForward& args, void* stream) {
  const AttentionProblem& a = args.problem;
  if (!OnTensorCores(args)) return LaunchPlain(args, stream);
  return WithHeads(a, [&]<Type S, int D>() { return LaunchTiles(Forward<S, D>{a}, a.shape, a.shape.heads, stream); });
}

bool OnTensorCores(const AttentionGradient& args) {
  if (!Takes(args.problem, {args.d_o, args.dq, args.dk, args.dv})) return false;
  // Among the kernels, KeyGradient needs the most shared memory. Both types need the same size.
  const int64_t bytes = args.problem.shape.width <= 64 ? KeyGradient<Type::kBf16, 64>::kSharedBytes
                                                       : KeyGradient<Type::kBf16, 128>::kSharedBytes;
  return bytes <= MaxSharedBytes();
}

Outcome Launch(const AttentionGradient& args, void* stream) {
  if (!OnTensorCores(args)) return LaunchPlain(args, stream);
  const HeadShape& shape = args.problem.shape;
  return WithHeads(args.problem, [&]<Type S, int D>() {
    const Outcome outcome = LaunchTiles(QueryGradient<S, D>{args}, shape, shape.heads, stream);
    if (outcome != nullptr) return outcome;
    return LaunchTiles(KeyGradient<S, D>{args}, shape, shape.kv_heads, stream);
  });
}

}  // namespace weft::exec::cuda
