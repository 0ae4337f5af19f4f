// Attention without a matrix of scores (Dao et al. 2022, arXiv:2205.14135), for any type and any width of a head,
// without tensor cores. It is deterministic: every result is summed by one block in a fixed order.
//
// A block has a tile of 32 queries, four per warp, and loops over tiles of 32 keys, one per lane. For the gradients of
// k and v, it has a tile of keys and loops over tiles of queries. Products over the columns of a head take a few
// columns at a time. Each block makes one slice of the columns of the results and recomputes the scores for it, so
// heads may be of any width.
#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/dropout_words.h"
#include "executor/backends/cuda/kernels/flash_attention.h"
#include "executor/backends/cuda/kernels/rows.h"

namespace weft::exec::cuda {
namespace {

constexpr int kThreads = 256;
// Rows of a tile, and rows of a tile per warp.
constexpr int kRows = 32;
constexpr int kOfWarp = 4;
static_assert(kThreads / kWarp * kOfWarp == kRows && kRows == kWarp);

// Columns of a head that products take at a time, and columns of one result tensor that a block makes.
template <typename C>
constexpr int kDepth = 128 / static_cast<int>(sizeof(C));
template <typename C>
constexpr int kSlice = 512 / static_cast<int>(sizeof(C));
template <typename C>
constexpr int kHeld = kSlice<C> / kWarp;

// Layout of shared memory: tiles of both factors of a product, slices of up to two tensors, two numbers per row.
template <typename C>
struct Layout {
  static constexpr int64_t kSize = sizeof(C);
  static constexpr int kPitch = kDepth<C> + 1;
  static constexpr int64_t kRowTile = 0;
  static constexpr int64_t kLaneTile = kRowTile + kRows * kDepth<C> * kSize;
  // All parts are multiples of sixteen bytes.
  static constexpr int64_t kSlices = kLaneTile + kRows * kPitch * kSize;
  static constexpr int64_t kStatistics = kSlices + 2 * kRows * kSlice<C> * kSize;
  static constexpr int64_t kBytes = kStatistics + 2 * kRows * kSize;
};

// Rows of one head of one tensor, counted within one sequence.
struct Rows {
  const HeadPart& part;
  int64_t base, head;

  WEFT_DEVICE int64_t Element(int64_t row) const { return part.Element(base + row, head); }
};

// The sequence, head, tile and slice that a block works on.
template <typename C>
struct Tile {
  const AttentionProblem& a;
  int64_t sequence, head, first, column;
  uint64_t sample;

  // `heads` is the number of heads per sequence. Consecutive blocks make consecutive slices of the result.
  template <typename Thread>
  WEFT_DEVICE Tile(const AttentionProblem& problem, int64_t heads, const Thread& thread) : a(problem) {
    const int64_t slices = Divide(a.shape.width + kSlice<C> - 1, kSlice<C>);
    const int64_t tiles = Divide(a.shape.sequence + kRows - 1, kRows);
    int64_t rest = Divide(thread.block(), slices);
    column = (thread.block() - rest * slices) * kSlice<C>;
    const int64_t of_head = Divide(rest, tiles);
    first = (rest - of_head * tiles) * kRows;
    sequence = Divide(of_head, heads);
    head = of_head - sequence * heads;
    sample = SampleOf(a.samples, sequence);
  }

  WEFT_DEVICE Rows RowsOf(const HeadPart& part, int64_t of_head) const {
    return {part, sequence * a.shape.sequence, of_head};
  }
  WEFT_DEVICE int64_t Statistic(int64_t query, int64_t of_head) const {
    return (sequence * a.shape.heads + of_head) * a.shape.sequence + query;
  }
  WEFT_DEVICE bool Sees(int64_t query, int64_t key) const {
    if (query >= a.shape.sequence || key >= a.shape.sequence) return false;
    return !a.causal || (key <= query && (a.window <= 0 || key > query - a.window));
  }
  // Makes the random words again for every element, because keeping them would take too many registers.
  WEFT_DEVICE bool Keeps(int64_t e) const { return DropoutWords(a.dropout).IsKept(sample, e); }

  // Returns which of the thread's kOfWarp pairs of query and key dropout keeps, one bit each. From one pair to the
  // next, the query advances by `query_step` and the key by `key_step`.
  WEFT_DEVICE uint32_t KeptBits(int64_t of_head, int64_t query, int64_t query_step, int64_t key,
                                int64_t key_step) const {
    if (a.dropout.threshold == 0) return ~uint32_t{0};
    const int64_t n = a.shape.sequence;
    int64_t e = ((a.first_head + of_head) * n + query) * n + key;
    uint32_t kept = 0;
    // The loop is not unrolled, to save registers.
#pragma unroll 1
    for (int i = 0; i < kOfWarp; ++i, e += query_step * n + key_step) {
      kept |= static_cast<uint32_t>(Keeps(e)) << i;
    }
    return kept;
  }
  WEFT_DEVICE C Dropped(uint32_t kept, int i, C x) const {
    if (a.dropout.threshold == 0) return x;
    return (kept >> i & 1) != 0 ? x * static_cast<C>(a.dropout.factor) : C(0);
  }

  // Ranges of the keys that the tile's queries see, and of the queries that see the tile's keys.
  WEFT_DEVICE int64_t FirstKey() const {
    if (!a.causal || a.window <= 0) return 0;
    return Largest(int64_t{0}, first + 1 - a.window) / kRows * kRows;
  }
  WEFT_DEVICE int64_t EndOfKeys() const { return a.causal ? Least(a.shape.sequence, first + kRows) : a.shape.sequence; }
  WEFT_DEVICE int64_t FirstQuery() const { return a.causal ? first : 0; }
  WEFT_DEVICE int64_t EndOfQueries() const {
    if (!a.causal || a.window <= 0 || a.window >= a.shape.sequence) return a.shape.sequence;
    return Least(a.shape.sequence, first + kRows + a.window - 1);
  }
};

// Sets sums[i] to the product of row (row + 4 * warp + i) of `rows` and row (lane_row + lane) of `lanes`. All threads
// must call Products together, because it contains barriers.
template <typename C, typename Thread>
WEFT_DEVICE void Products(Thread& thread, const AttentionProblem& a, const Rows& rows, int64_t row, const Rows& lanes,
                          int64_t lane_row, C (&sums)[kOfWarp]) {
  using At = Layout<C>;
  const auto row_tile = thread.template Shared<C>(At::kRowTile, kRows * kDepth<C>);
  const auto lane_tile = thread.template Shared<C>(At::kLaneTile, kRows * At::kPitch);
#pragma unroll
  for (int i = 0; i < kOfWarp; ++i) sums[i] = C(0);
  for (int64_t first = 0; first < a.shape.width; first += kDepth<C>) {
    thread.Sync();
    for (int e = thread.index(); e < kRows * kDepth<C>; e += kThreads) {
      const int r = e / kDepth<C>, c = e % kDepth<C>;
      const bool inside = first + c < a.shape.width;
      row_tile.Put(
          e, inside && row + r < a.shape.sequence ? Load<C>(rows.part.array, rows.Element(row + r) + first + c) : C(0));
      lane_tile.Put(r * At::kPitch + c, inside && lane_row + r < a.shape.sequence
                                            ? Load<C>(lanes.part.array, lanes.Element(lane_row + r) + first + c)
                                            : C(0));
    }
    thread.Sync();
#pragma unroll 4
    for (int c = 0; c < kDepth<C>; ++c) {
      const C other = lane_tile[thread.lane() * At::kPitch + c];
#pragma unroll
      for (int i = 0; i < kOfWarp; ++i) sums[i] += row_tile[(thread.warp() * kOfWarp + i) * kDepth<C> + c] * other;
    }
  }
}

// Loads columns [column, column + kSlice) of a tile's rows into place 0 or 1 of the shared memory for slices. A barrier
// must separate the load from earlier reads of the place, and another one from later reads. Products contains one.
template <typename C, typename Thread>
WEFT_DEVICE void LoadSlice(Thread& thread, const AttentionProblem& a, const Rows& rows, int64_t row, int64_t column,
                           int place) {
  const auto slice = thread.template Shared<C>(Layout<C>::kSlices, 2 * kRows * kSlice<C>);
#pragma unroll 4
  for (int e = thread.index(); e < kRows * kSlice<C>; e += kThreads) {
    const int r = e / kSlice<C>, c = e % kSlice<C>;
    const bool inside = row + r < a.shape.sequence && column + c < a.shape.width;
    slice.Put(place * kRows * kSlice<C> + e,
              inside ? Load<C>(rows.part.array, rows.Element(row + r) + column + c) : C(0));
  }
}

// sums[i] += (the factors of the warp's row i, one per lane) * (the rows of the slice).
template <typename C, typename Thread>
WEFT_DEVICE void AddSlice(Thread& thread, int place, const C (&factors)[kOfWarp], C (&sums)[kOfWarp][kHeld<C>]) {
  const auto slice = thread.template Shared<C>(Layout<C>::kSlices, 2 * kRows * kSlice<C>);
#pragma unroll 4
  for (int j = 0; j < kRows; ++j) {
    C factor[kOfWarp];
#pragma unroll
    for (int i = 0; i < kOfWarp; ++i) factor[i] = thread.Shuffle(factors[i], j);
#pragma unroll
    for (int h = 0; h < kHeld<C>; ++h) {
      const C x = slice[(place * kRows + j) * kSlice<C> + thread.lane() + kWarp * h];
#pragma unroll
      for (int i = 0; i < kOfWarp; ++i) sums[i][h] += factor[i] * x;
    }
  }
}

// Stores the warp's rows of the tile.
template <typename C, typename Thread>
WEFT_DEVICE void StoreRows(const Thread& thread, const Tile<C>& tile, const Rows& to,
                           const C (&sums)[kOfWarp][kHeld<C>]) {
#pragma unroll
  for (int i = 0; i < kOfWarp; ++i) {
    const int64_t row = tile.first + thread.warp() * kOfWarp + i;
#pragma unroll
    for (int h = 0; h < kHeld<C>; ++h) {
      const int64_t column = tile.column + thread.lane() + kWarp * h;
      if (row < tile.a.shape.sequence && column < tile.a.shape.width) {
        Store<C>(to.part.array, to.Element(row) + column, sums[i][h]);
      }
    }
  }
}

template <typename C>
struct Forward {
  static constexpr int kMaxThreads = kThreads;
  AttentionProblem a;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const Tile<C> tile(a, a.shape.heads, thread);
    const int64_t kv = Divide(tile.head, a.shape.group());
    const C scale = static_cast<C>(a.scale);
    C most[kOfWarp], total[kOfWarp] = {}, o[kOfWarp][kHeld<C>] = {};
#pragma unroll
    for (int i = 0; i < kOfWarp; ++i) most[i] = C(-INFINITY);
    for (int64_t first = tile.FirstKey(); first < tile.EndOfKeys(); first += kRows) {
      C p[kOfWarp];
      Products(thread, a, tile.RowsOf(a.q, tile.head), tile.first, tile.RowsOf(a.k, kv), first, p);
      const uint32_t kept = tile.KeptBits(tile.head, tile.first + thread.warp() * kOfWarp, 1, first + thread.lane(), 0);
#pragma unroll
      for (int i = 0; i < kOfWarp; ++i) {
        const int64_t query = tile.first + thread.warp() * kOfWarp + i, key = first + thread.lane();
        const bool sees = tile.Sees(query, key);
        const C score = sees ? p[i] * scale : C(-INFINITY);
        const C highest = Largest(most[i], WarpLargest(thread, score));
        const C rest = most[i] == C(-INFINITY) ? C(0) : Exp(most[i] - highest);
        p[i] = sees ? Exp(score - highest) : C(0);
        total[i] = total[i] * rest + WarpSum(thread, p[i]);
        most[i] = highest;
#pragma unroll
        for (int h = 0; h < kHeld<C>; ++h) o[i][h] *= rest;
        p[i] = tile.Dropped(kept, i, p[i]);
      }
      LoadSlice<C>(thread, a, tile.RowsOf(a.v, kv), first, tile.column, 0);
      thread.Sync();
      AddSlice(thread, 0, p, o);
    }
#pragma unroll
    for (int i = 0; i < kOfWarp; ++i) {
      const int64_t query = tile.first + thread.warp() * kOfWarp + i;
#pragma unroll
      for (int h = 0; h < kHeld<C>; ++h) o[i][h] /= total[i];
      if (tile.column == 0 && thread.lane() == 0 && query < a.shape.sequence) {
        Store<C>(a.lse, tile.Statistic(query, tile.head), most[i] + Log(total[i]));
      }
    }
    StoreRows(thread, tile, tile.RowsOf(a.o, tile.head), o);
  }
};

// With p = softmax(scale * q k^T), r = dropout(p), o = r v:
//   dv = r^T do,  dr = do v^T,  dp = dropout(dr),  ds = p * (dp - sum(do * o)) * scale,  dq = ds k,  dk = ds^T q.
//
// Shift returns sum(do * o) of a query, in all lanes.
template <typename C, typename Thread>
WEFT_DEVICE C Shift(Thread& thread, const AttentionProblem& a, const Rows& d_o, const Rows& o, int64_t query) {
  C sum = 0;
  if (query < a.shape.sequence) {
    for (int64_t c = thread.lane(); c < a.shape.width; c += kWarp) {
      sum += Load<C>(d_o.part.array, d_o.Element(query) + c) * Load<C>(o.part.array, o.Element(query) + c);
    }
  }
  return WarpSum(thread, sum);
}

template <typename C>
struct QueryGradient {
  static constexpr int kMaxThreads = kThreads;
  AttentionGradient g;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const AttentionProblem& a = g.problem;
    const Tile<C> tile(a, a.shape.heads, thread);
    const int64_t kv = Divide(tile.head, a.shape.group());
    const C scale = static_cast<C>(a.scale);
    C shift[kOfWarp], lse[kOfWarp], dq[kOfWarp][kHeld<C>] = {};
#pragma unroll
    for (int i = 0; i < kOfWarp; ++i) {
      const int64_t query = tile.first + thread.warp() * kOfWarp + i;
      shift[i] = Shift<C>(thread, a, tile.RowsOf(g.d_o, tile.head), tile.RowsOf(a.o, tile.head), query);
      lse[i] = query < a.shape.sequence ? Load<C>(a.lse, tile.Statistic(query, tile.head)) : C(0);
    }
    for (int64_t first = tile.FirstKey(); first < tile.EndOfKeys(); first += kRows) {
      C s[kOfWarp], dp[kOfWarp];
      Products(thread, a, tile.RowsOf(a.q, tile.head), tile.first, tile.RowsOf(a.k, kv), first, s);
      Products(thread, a, tile.RowsOf(g.d_o, tile.head), tile.first, tile.RowsOf(a.v, kv), first, dp);
      const uint32_t kept = tile.KeptBits(tile.head, tile.first + thread.warp() * kOfWarp, 1, first + thread.lane(), 0);
#pragma unroll
      for (int i = 0; i < kOfWarp; ++i) {
        const int64_t query = tile.first + thread.warp() * kOfWarp + i, key = first + thread.lane();
        const bool sees = tile.Sees(query, key);
        const C p = sees ? Exp(s[i] * scale - lse[i]) : C(0);
        s[i] = sees ? p * (tile.Dropped(kept, i, dp[i]) - shift[i]) * scale : C(0);
      }
      LoadSlice<C>(thread, a, tile.RowsOf(a.k, kv), first, tile.column, 0);
      thread.Sync();
      AddSlice(thread, 0, s, dq);
    }
    StoreRows(thread, tile, tile.RowsOf(g.dq, tile.head), dq);
  }
};

// The tile holds keys. Sums run over the heads of q that share the head of k, in ascending order, then over queries.
template <typename C>
struct KeyGradient {
  static constexpr int kMaxThreads = kThreads;
  AttentionGradient g;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const AttentionProblem& a = g.problem;
    const Tile<C> tile(a, a.shape.kv_heads, thread);
    C dk[kOfWarp][kHeld<C>] = {}, dv[kOfWarp][kHeld<C>] = {};
    for (int64_t member = 0; member < a.shape.group(); ++member) {
      const int64_t head = tile.head * a.shape.group() + member;
      for (int64_t first = tile.FirstQuery(); first < tile.EndOfQueries(); first += kRows) {
        AddQueries(thread, tile, head, first, dk, dv);
      }
    }
    StoreRows(thread, tile, tile.RowsOf(g.dk, tile.head), dk);
    StoreRows(thread, tile, tile.RowsOf(g.dv, tile.head), dv);
  }

  template <typename Thread>
  WEFT_DEVICE void AddQueries(Thread& thread, const Tile<C>& tile, int64_t head, int64_t first,
                              C (&dk)[kOfWarp][kHeld<C>], C (&dv)[kOfWarp][kHeld<C>]) const {
    const AttentionProblem& a = g.problem;
    const C scale = static_cast<C>(a.scale);
    const auto statistics = thread.template Shared<C>(Layout<C>::kStatistics, 2 * kRows);
    C s[kOfWarp], dp[kOfWarp];
    Products(thread, a, tile.RowsOf(a.k, tile.head), tile.first, tile.RowsOf(a.q, head), first, s);
    Products(thread, a, tile.RowsOf(a.v, tile.head), tile.first, tile.RowsOf(g.d_o, head), first, dp);
    // The statistics of the previous round may be overwritten now: all threads have read them before the barrier in
    // Products.
#pragma unroll 1
    for (int i = 0; i < kOfWarp; ++i) {
      const int r = thread.warp() * kOfWarp + i;
      const C shift = Shift<C>(thread, a, tile.RowsOf(g.d_o, head), tile.RowsOf(a.o, head), first + r);
      if (thread.lane() != 0) continue;
      statistics.Put(r, first + r < a.shape.sequence ? Load<C>(a.lse, tile.Statistic(first + r, head)) : C(0));
      statistics.Put(kRows + r, shift);
    }
    LoadSlice<C>(thread, a, tile.RowsOf(a.q, head), first, tile.column, 0);
    LoadSlice<C>(thread, a, tile.RowsOf(g.d_o, head), first, tile.column, 1);
    thread.Sync();
    const C lse = statistics[thread.lane()], shift = statistics[kRows + thread.lane()];
    const uint32_t kept = tile.KeptBits(head, first + thread.lane(), 0, tile.first + thread.warp() * kOfWarp, 1);
#pragma unroll
    for (int i = 0; i < kOfWarp; ++i) {
      const int64_t key = tile.first + thread.warp() * kOfWarp + i, query = first + thread.lane();
      const bool sees = tile.Sees(query, key);
      const C p = sees ? Exp(s[i] * scale - lse) : C(0);
      s[i] = sees ? p * (tile.Dropped(kept, i, dp[i]) - shift) * scale : C(0);
      dp[i] = tile.Dropped(kept, i, p);
    }
    AddSlice(thread, 0, s, dk);
    AddSlice(thread, 1, dp, dv);
  }
};

template <typename C>
int64_t BlocksFor(const AttentionProblem& a, int64_t heads) {
  return a.shape.sequences * heads * CeilDivide(a.shape.sequence, kRows) * CeilDivide(a.shape.width, kSlice<C>);
}

template <typename C>
Outcome LaunchForward(const AttentionProblem& a, void* stream) {
  return LaunchKernel(Forward<C>{a}, BlocksFor<C>(a, a.shape.heads), kThreads, Layout<C>::kBytes, stream);
}

template <typename C>
Outcome LaunchGradients(const AttentionGradient& args, void* stream) {
  const AttentionProblem& a = args.problem;
  const Outcome outcome =
      LaunchKernel(QueryGradient<C>{args}, BlocksFor<C>(a, a.shape.heads), kThreads, Layout<C>::kBytes, stream);
  if (outcome != nullptr) return outcome;
  return LaunchKernel(KeyGradient<C>{args}, BlocksFor<C>(a, a.shape.kv_heads), kThreads, Layout<C>::kBytes, stream);
}

}  // namespace

Outcome LaunchPlain(const AttentionForward& args, void* stream) {
  return args.problem.in_double ? LaunchForward<double>(args.problem, stream)
                                : LaunchForward<float>(args.problem, stream);
}

Outcome LaunchPlain(const AttentionGradient& args, void* stream) {
  return args.problem.in_double ? LaunchGradients<double>(args, stream) : LaunchGradients<float>(args, stream);
}

}  // namespace weft::exec::cuda
