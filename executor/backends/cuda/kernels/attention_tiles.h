// Tiles of attention on tensor cores: 64 rows of a head in shared memory, the products of a warp's sixteen rows with
// them, and the test that decides which pairs of queries and keys count.
//
// A tile lies in shared memory by rows (for products that sum over the columns of a head), transposed (for products
// that sum over the tile's rows), or in both forms. A 32-bit word holds two 16-bit numbers. Rows are four words longer
// than needed, so that the lanes of a warp access different banks.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ATTENTION_TILES_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ATTENTION_TILES_H_

#include "executor/backends/cuda/kernels/dropout_words.h"
#include "executor/backends/cuda/kernels/flash_attention.h"
#include "executor/backends/cuda/kernels/mma.h"

namespace weft::exec::cuda::tiles {

inline constexpr int kThreads = 128;
inline constexpr int kTile = 64;
inline constexpr int kBlocks = kTile / 8;
inline constexpr int kTransposedPitch = kTile / 2 + 4;

// D is the number of columns of a head, rounded up to 64 or 128.
template <int D>
struct Layout {
  static constexpr int kPitch = D / 2 + 4;
  static constexpr int kRowWords = kTile * kPitch, kTransposedWords = D * kTransposedPitch;
};

// Rows of one head of one sequence.
struct HeadRows {
  uint16_t* row0;
  int64_t stride;

  WEFT_DEVICE HeadRows(const HeadPart& part, int64_t row, int64_t head)
      : row0(static_cast<uint16_t*>(part.array.data) + part.Element(row, head)), stride(part.stride) {}
  WEFT_DEVICE Words Eight(int64_t row, int64_t eight) const { return LoadWords(row0 + row * stride + eight * kBlock); }
};

WEFT_DEVICE uint32_t Half(const Words& words, int i) { return (words.word[i / 2] >> (16 * (i % 2))) & 0xffffu; }

template <Type S>
WEFT_DEVICE float Number(const Words& words, int i) {
  const auto bits = static_cast<uint16_t>(Half(words, i));
  return S == Type::kBf16 ? ToFloat(Bf16{bits}) : ToFloat(Fp16{bits});
}

// Loads rows [first, first + 64) into shared memory: by rows from word `rows` on, and transposed from word `transposed`
// on; -1 = not in this form. Stores zeros beyond the sequence and the head. Each lane loads two rows; each warp loads
// every fourth group of eight columns.
template <int D, typename Thread>
WEFT_DEVICE void LoadTile(Thread& thread, const HeadShape& shape, const HeadRows& from, int64_t first, int rows,
                          int transposed) {
  constexpr int kPitch = Layout<D>::kPitch;
  const int64_t upper = first + 2 * thread.lane();
#pragma unroll 2
  for (int e = thread.warp(); e < D / kBlock; e += kThreads / kWarp) {
    Words words[2] = {};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (upper + i < shape.sequence && e * kBlock < shape.width) words[i] = from.Eight(upper + i, e);
    }
    if (rows >= 0) {
      const auto tile = thread.template Shared<Words>(int64_t{4} * rows, kTile * kPitch / 4);
#pragma unroll
      for (int i = 0; i < 2; ++i) tile.Put(((2 * thread.lane() + i) * kPitch) / 4 + e, words[i]);
    }
    if (transposed >= 0) {
      const auto tile = thread.template Shared<uint32_t>(int64_t{4} * transposed, Layout<D>::kTransposedWords);
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        tile.Put((e * kBlock + i) * kTransposedPitch + thread.lane(), Half(words[0], i) | Half(words[1], i) << 16);
      }
    }
  }
}

// Returns a left factor of a matrix instruction: sixteen rows of the tile from `row` on, terms 16 * `step` to 16 *
// `step` + 15.
template <typename Tile>
WEFT_DEVICE MmaLeft LeftOf(const Tile& tile, int pitch, int row, int step, int lane) {
  const int upper = (row + lane / 4) * pitch + 8 * step + lane % 4, lower = upper + 8 * pitch;
  return {{tile[upper], tile[lower], tile[upper + 4], tile[lower + 4]}};
}
// Returns a right factor: eight columns of the product, which are eight rows of the tile from `row` on, with the same
// terms as in LeftOf.
template <typename Tile>
WEFT_DEVICE MmaRight RightOf(const Tile& tile, int pitch, int row, int step, int lane) {
  const int place = (row + lane / 4) * pitch + 8 * step + lane % 4;
  return {{tile[place], tile[place + 4]}};
}

// The sequence, head and tile that a block of threads works on.
template <Type S, int D>
struct Place {
  const AttentionProblem& a;
  int64_t sequence, head, first;
  uint64_t sample;

  // `heads` is the number of heads per sequence. The tiles with the most work come first: with a mask these are the
  // last queries, or the first keys.
  template <typename Thread>
  WEFT_DEVICE Place(const AttentionProblem& problem, int64_t heads, bool of_queries, const Thread& thread)
      : a(problem) {
    const int64_t tiles = Divide(a.shape.sequence + kTile - 1, kTile), all = a.shape.sequences * heads;
    const int64_t tile = Divide(thread.block(), all), which = thread.block() - tile * all;
    first = (of_queries ? tiles - 1 - tile : tile) * kTile;
    sequence = Divide(which, heads);
    head = which - sequence * heads;
    sample = SampleOf(a.samples, sequence);
  }

  WEFT_DEVICE HeadRows RowsOf(const HeadPart& part, int64_t of_head) const {
    return HeadRows(part, sequence * a.shape.sequence, of_head);
  }
  WEFT_DEVICE int64_t StatisticOf(int64_t query, int64_t of_head) const {
    return (sequence * a.shape.heads + of_head) * a.shape.sequence + query;
  }
  WEFT_DEVICE bool Sees(int64_t query, int64_t key) const {
    if (query >= a.shape.sequence || key >= a.shape.sequence) return false;
    return !a.causal || (key <= query && (a.window <= 0 || key > query - a.window));
  }
  // Like Sees above, for the pair of query and key of one of a lane's sums. The warp's sums belong to sixteen queries
  // from `query` on and a tile of keys from `key` on, in blocks of eight keys. The lane's sum is in row r and column c
  // of its part of block n.
  template <typename Thread>
  WEFT_DEVICE bool Sees(const Thread& thread, int64_t query, int64_t key, int n, int r, int c) const {
    return Sees(query + thread.lane() / 4 + 8 * r, key + 8 * n + thread.lane() % 4 * 2 + c);
  }

  // The next four functions bound the keys that the tile's queries see, and the queries that see the tile's keys.
  WEFT_DEVICE int64_t FirstKey() const {
    if (!a.causal || a.window <= 0) return 0;
    return Largest(int64_t{0}, first + 1 - a.window) / kTile * kTile;
  }
  WEFT_DEVICE int64_t EndOfKeys() const { return a.causal ? Least(a.shape.sequence, first + kTile) : a.shape.sequence; }
  WEFT_DEVICE int64_t FirstQuery() const { return a.causal ? first : 0; }
  WEFT_DEVICE int64_t EndOfQueries() const {
    if (!a.causal || a.window <= 0 || a.window >= a.shape.sequence) return a.shape.sequence;
    return Least(a.shape.sequence, first + kTile + a.window - 1);
  }

  // Returns one bit for each pair of the query with the four keys from `key` on; 1 = dropout keeps the pair. Needs only
  // one block of random words if the length of sequences is a multiple of four.
  WEFT_DEVICE uint32_t FourKept(int64_t of_head, int64_t query, int64_t key) const {
    const int64_t n = a.shape.sequence, e = ((a.first_head + of_head) * n + query) * n + key;
    DropoutWords words(a.dropout);
    uint32_t kept = 0;
    // Not unrolled: every iteration would repeat the code that makes the words.
#pragma unroll 1
    for (int i = 0; i < 4; ++i) kept |= static_cast<uint32_t>(words.IsKept(sample, e + i)) << i;
    return kept;
  }
  WEFT_DEVICE float Factor() const { return static_cast<float>(a.dropout.factor); }
};

// sums = the products of sixteen rows with the 64 rows of a tile. left(step) returns the terms of the sixteen rows from
// 16 * step on.
template <Type S, int D, typename Thread, typename Left, typename Tile>
WEFT_DEVICE void Scores(Thread& thread, Left left, const Tile& tile, MmaSums (&sums)[kBlocks]) {
#pragma unroll
  for (MmaSums& one : sums) one = {};
#pragma unroll
  for (int step = 0; step < D / 16; ++step) {
    const MmaLeft a = left(step);
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      Multiply<S>(thread, a, RightOf(tile, Layout<D>::kPitch, 8 * n, step, thread.lane()), sums[n]);
    }
  }
}

// to += (the sixteen rows of factors, rounded) * (the 64 rows of a transposed tile).
template <Type S, int D, typename Thread, typename Tile>
WEFT_DEVICE void AddRows(Thread& thread, const MmaSums (&factors)[kBlocks], const Tile& transposed,
                         MmaSums (&to)[D / 8]) {
#pragma unroll
  for (int step = 0; step < kTile / 16; ++step) {
    const float* const low = factors[2 * step].sum;
    const float* const high = factors[2 * step + 1].sum;
    const MmaLeft a = {{HalvesOf<S>(low[0], low[1]), HalvesOf<S>(low[2], low[3]), HalvesOf<S>(high[0], high[1]),
                        HalvesOf<S>(high[2], high[3])}};
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      Multiply<S>(thread, a, RightOf(transposed, kTransposedPitch, 8 * n, step, thread.lane()), to[n]);
    }
  }
}

// Stores the warp's sixteen rows of sums in `to`, from `row` on. A lane holds parts of rows g and g + 8, where g = lane
// / 4, and multiplies them by factors[0] and factors[1].
template <Type S, int D, typename Thread>
WEFT_DEVICE void StoreRows(const Thread& thread, const HeadShape& shape, const HeadRows& to, int64_t row,
                           const MmaSums (&sums)[D / 8], const float (&factors)[2]) {
#pragma unroll
  for (int n = 0; n < D / 8; ++n) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int64_t at = row + thread.lane() / 4 + 8 * r;
      if (at >= shape.sequence || 8 * n >= shape.width) continue;
      const float *sum = sums[n].sum + 2 * r, factor = factors[r];
      StoreWord(to.row0 + at * to.stride + 8 * n + thread.lane() % 4 * 2,
                HalvesOf<S>(sum[0] * factor, sum[1] * factor));
    }
  }
}

// Returns the sum over the four lanes that share rows.
template <typename Thread>
WEFT_DEVICE float QuadSum(Thread& thread, float x) {
  x += thread.ShuffleXor(x, 1);
  return x + thread.ShuffleXor(x, 2);
}

// Returns which of a lane's four pairs dropout keeps: bit 2 r + c for row r and column c. Rows are queries g and g + 8,
// where g = lane / 4; columns are keys 2t and 2t + 1 of the eight keys from `key` on, where t = lane % 4. Two
// neighboring lanes share the random words of four keys; each makes the words of one row.
template <typename Thread, typename P>
WEFT_DEVICE uint32_t KeptOfQueries(Thread& thread, const P& place, int64_t query, int64_t key) {
  if (place.a.dropout.threshold == 0) return 15;
  const int odd = thread.lane() % 2;
  const int64_t four = key + thread.lane() % 4 / 2 * 4;
  const uint32_t own = place.FourKept(place.head, query + thread.lane() / 4 + 8 * odd, four);
  const uint32_t other = thread.ShuffleXor(own, 1);
  const uint32_t upper = odd == 0 ? own : other, lower = odd == 0 ? other : own;
  return ((upper >> (2 * odd)) & 3) | ((lower >> (2 * odd)) & 3) << 2;
}

// Like KeptOfQueries, but rows are keys and columns are queries. Four lanes with neighboring rows share random words:
// each of them makes the words of four keys and one query, which all four lanes need for one of their four pairs.
template <typename Thread, typename P>
WEFT_DEVICE uint32_t KeptOfKeys(Thread& thread, const P& place, int64_t head, int64_t query, int64_t key) {
  if (place.a.dropout.threshold == 0) return 15;
  const int g = thread.lane() / 4, t = thread.lane() % 4, which = g % 4;
  const uint32_t own = place.FourKept(head, query + 2 * t + which % 2, key + g / 4 * 4 + which / 2 * 8);
  uint32_t kept = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) kept |= ((thread.Shuffle(own, (g / 4 * 4 + i) * 4 + t) >> which) & 1) << i;
  return kept;
}

}  // namespace weft::exec::cuda::tiles

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_ATTENTION_TILES_H_
