// The gradient of a table is made without atomic additions of floats. Rows of dy are grouped by the row of the table
// that they name, in ascending order. One warp sums 256 columns of a row of the table, or one block if the row is named
// often.
#include "executor/backends/cuda/kernels/embedding.h"
#include "executor/backends/cuda/kernels/pieces.h"
#include "executor/backends/cuda/kernels/rows.h"

namespace weft::exec::cuda {
namespace {

constexpr int kThreads = kPieceThreads;
// Pieces per thread, and rows that a sum loads together.
constexpr int kEach = 2;
constexpr int kTogether = 4;

WEFT_DEVICE float NotANumber(float) { return FloatOfBits(0x7fc00000u); }
WEFT_DEVICE double NotANumber(double) { return static_cast<double>(FloatOfBits(0x7fc00000u)); }

// Returns the row of the table for a token; -1 if there is none.
WEFT_DEVICE int64_t TableRow(int32_t token, int64_t shift, int64_t table_rows) {
  const int64_t row = token - shift;
  return token >= 0 && row >= 0 && row < table_rows ? row : -1;
}

template <typename C, Type S>
struct Gather {
  static constexpr int kMaxThreads = kThreads;
  Embedding a;
  Pieces pieces;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const bool aligned = pieces.Aligned();
    Piece piece[kEach];
    int32_t token[kEach];
    Eight<C, S> eight[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      piece[i] = pieces.At(thread, i, kEach);
      token[i] = a.tokens[piece[i].row];
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int64_t from = TableRow(token[i], a.shift, a.table_rows);
      eight[i].Ask(a.table, from * a.columns + piece[i].first, from < 0 ? 0 : piece[i].count, aligned);
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      C x[kBlock];
      eight[i].Get(x);
      // A token that belongs to another rank's part of the table gives zeros.
      const bool wrong = token[i] < 0 || (!a.split && TableRow(token[i], a.shift, a.table_rows) < 0);
#pragma unroll
      for (int j = 0; j < kBlock; ++j) x[j] = wrong ? NotANumber(C(0)) : x[j];
      StoreEight<C, S>(a.y, piece[i].row * a.columns + piece[i].first, piece[i].count, aligned, x);
    }
  }
};

// Scratch memory of the backward kernel. A "name" is a row of dy that names a row of the table. For each row of the
// table: its number of names (`count`), how many of them are placed so far (`placed`), and the place of its first name
// in `order` (`begin`). `unsorted` and `order` list the rows of dy, grouped by row of the table. `seldom` and `often`
// list the rows of the table with few and with many names.
struct Index {
  int32_t* count;
  int32_t* placed;
  // Number of names that have a place, number of rows named seldom, and number of rows named often.
  int32_t* totals;
  int32_t* begin;
  int32_t* unsorted;
  int32_t* order;
  int32_t* seldom;
  int32_t* often;

  static int64_t MaxNamed(int64_t rows, int64_t table_rows) { return rows < table_rows ? rows : table_rows; }
  static int64_t MaxOften(int64_t rows) { return rows / (EmbeddingBackward::kFew + 1); }
  static int64_t Numbers(int64_t rows, int64_t table_rows) {
    return 3 * table_rows + kTotals + 2 * rows + MaxNamed(rows, table_rows) + MaxOften(rows);
  }
  static constexpr int kTotals = 3;

  static Index In(void* scratch, int64_t rows, int64_t table_rows) {
    auto* p = static_cast<int32_t*>(scratch);
    Index index;
    index.count = p;
    index.placed = p + table_rows;
    index.totals = p + 2 * table_rows;
    index.begin = index.totals + kTotals;
    index.unsorted = index.begin + table_rows;
    index.order = index.unsorted + rows;
    index.seldom = index.order + rows;
    index.often = index.seldom + MaxNamed(rows, table_rows);
    return index;
  }
};

// Sets count, placed and totals to 0.
struct ClearIndex {
  static constexpr int kMaxThreads = kThreads;
  Index index;
  int64_t numbers;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t i = thread.block() * thread.count() + thread.index();
    if (i < numbers) index.count[i] = 0;
  }
};

struct CountNames {
  static constexpr int kMaxThreads = kThreads;
  EmbeddingBackward a;
  Index index;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t row = thread.block() * thread.count() + thread.index();
    if (row >= a.rows) return;
    const int64_t to = TableRow(a.tokens[row], a.shift, a.table_rows);
    if (to >= 0) thread.AtomicAdd(index.count + to, 1);
  }
};

// Gives each row of the table that is named a run of `order` and a place in `seldom` or `often`. The places depend on
// the order in which blocks run, but neither the content of a run nor the sum of a row depends on its place.
struct PlaceRows {
  static constexpr int kMaxThreads = kThreads;
  static constexpr int64_t kSharedBytes = 4 * (3 * (kThreads / kWarp) + 3);
  EmbeddingBackward a;
  Index index;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t row = thread.block() * thread.count() + thread.index();
    const int32_t names = row < a.table_rows ? index.count[row] : 0;
    const bool is_often = names > EmbeddingBackward::kFew, is_seldom = names > 0 && !is_often;
    const auto sums = thread.template Shared<int32_t>(0, 3 * (kThreads / kWarp) + 3);
    // Counts of the threads before this one: names, rows named seldom, rows named often.
    int32_t before[3] = {names, is_seldom ? 1 : 0, is_often ? 1 : 0};
#pragma unroll
    for (int which = 0; which < 3; ++which) {
      const int32_t own = before[which], up_to = WarpSumUpTo(thread, own);
      if (thread.lane() == kWarp - 1) sums.Put(which * thread.warps() + thread.warp(), up_to);
      before[which] = up_to - own;
    }
    thread.Sync();
    if (thread.index() < 3) {
      int32_t sum = 0;
      for (int warp = 0; warp < thread.warps(); ++warp) {
        const int32_t own = sums[thread.index() * thread.warps() + warp];
        sums.Put(thread.index() * thread.warps() + warp, sum);
        sum += own;
      }
      sums.Put(3 * thread.warps() + thread.index(), thread.AtomicAdd(index.totals + thread.index(), sum));
    }
    thread.Sync();
#pragma unroll
    for (int which = 0; which < 3; ++which) {
      before[which] += sums[which * thread.warps() + thread.warp()] + sums[3 * thread.warps() + which];
    }
    if (names == 0) return;
    index.begin[row] = before[0];
    if (is_seldom) index.seldom[before[1]] = static_cast<int32_t>(row);
    if (is_often) index.often[before[2]] = static_cast<int32_t>(row);
  }
};

// Groups the rows of dy that name the same row of the table, in any order.
struct PlaceNames {
  static constexpr int kMaxThreads = kThreads;
  EmbeddingBackward a;
  Index index;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t row = thread.block() * thread.count() + thread.index();
    if (row >= a.rows) return;
    const int64_t to = TableRow(a.tokens[row], a.shift, a.table_rows);
    if (to < 0) return;
    index.unsorted[index.begin[to] + thread.AtomicAdd(index.placed + to, 1)] = static_cast<int32_t>(row);
  }
};

// Each thread places its row of dy among the rows that name the same row of the table. These rows get the order that
// they have in dy, so the place is the number of them that come earlier in dy.
struct SortNames {
  static constexpr int kMaxThreads = kThreads;
  EmbeddingBackward a;
  Index index;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t row = thread.block() * thread.count() + thread.index();
    if (row >= a.rows) return;
    const int64_t to = TableRow(a.tokens[row], a.shift, a.table_rows);
    if (to < 0) return;
    const int32_t* same = index.unsorted + index.begin[to];
    const int32_t count = index.count[to];
    int32_t less = 0;
    for (int32_t i = 0; i < count; ++i) less += same[i] < row ? 1 : 0;
    index.order[index.begin[to] + less] = static_cast<int32_t>(row);
  }
};

// Adds rows names[begin], names[begin + step], ... of dy to `sum`, in this order; `end` bounds the index.
template <typename C, Type S>
WEFT_DEVICE void AddNames(const EmbeddingBackward& a, const int32_t* names, int32_t begin, int32_t end, int step,
                          int64_t first, int64_t count, C (&sum)[kBlock]) {
  const bool aligned = a.columns % kBlock == 0;
  for (int32_t i = begin; i < end; i += kTogether * step) {
    Eight<C, S> dy[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const bool inside = i + k * step < end;
      const int64_t row = inside ? names[i + k * step] : 0;
      dy[k].Ask(a.dy, row * a.columns + first, inside ? count : 0, aligned);
    }
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      C x[kBlock];
      dy[k].Get(x);
#pragma unroll
      for (int j = 0; j < kBlock; ++j) sum[j] += x[j];
    }
  }
}

// A warp sums 256 columns of a row of the table that is named seldom. Without `accumulate` it also handles rows that
// are not named, which become 0.
template <typename C, Type S>
struct AddFew {
  static constexpr int kMaxThreads = kThreads;
  EmbeddingBackward a;
  Index index;
  int64_t tiles;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t item = thread.block() * thread.warps() + thread.warp();
    const int64_t which = Divide(item, tiles), tile = item - which * tiles;
    if (which >= (a.accumulate ? index.totals[1] : a.table_rows)) return;
    const int64_t row = a.accumulate ? index.seldom[which] : which;
    const int32_t names = index.count[row];
    if (names > EmbeddingBackward::kFew) return;
    const int64_t first = (tile * kWarp + thread.lane()) * kBlock, count = a.columns - first;
    if (count <= 0) return;
    C sum[kBlock] = {};
    if (names > 0) AddNames<C, S>(a, index.order + index.begin[row], 0, names, 1, first, count, sum);
    WriteSome<C>(a.dtable, row * a.columns + first, count, a.columns % kBlock == 0, a.accumulate, sum);
  }
};

// A block sums 256 columns of a row of the table that is named often; each warp takes every eighth name.
template <typename C, Type S>
struct AddOften {
  static constexpr int kMaxThreads = kThreads;
  static constexpr int kWarps = kThreads / kWarp;
  EmbeddingBackward a;
  Index index;
  int64_t tiles;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t which = Divide(thread.block(), tiles), tile = thread.block() - which * tiles;
    // All threads of the block take the same branch.
    if (which >= index.totals[2]) return;
    const int64_t row = index.often[which];
    const int64_t first = (tile * kWarp + thread.lane()) * kBlock, count = a.columns - first;
    C sum[kBlock] = {};
    if (count > 0) {
      AddNames<C, S>(a, index.order + index.begin[row], thread.warp(), index.count[row], kWarps, first, count, sum);
    }
    const auto shared = thread.template Shared<C>(0, kWarps * kWarp * kBlock);
#pragma unroll
    for (int j = 0; j < kBlock; ++j) shared.Put((thread.warp() * kBlock + j) * kWarp + thread.lane(), sum[j]);
    thread.Sync();
    if (thread.warp() != 0 || count <= 0) return;
    for (int warp = 1; warp < kWarps; ++warp) {
#pragma unroll
      for (int j = 0; j < kBlock; ++j) sum[j] += shared[(warp * kBlock + j) * kWarp + thread.lane()];
    }
    WriteSome<C>(a.dtable, row * a.columns + first, count, a.columns % kBlock == 0, a.accumulate, sum);
  }
};

template <typename C, Type S>
struct GatherPositions {
  static constexpr int kMaxThreads = kThreads;
  PositionEmbedding a;
  Pieces pieces;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const bool aligned = pieces.Aligned();
    Piece piece[kEach];
    Eight<C, S> eight[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      piece[i] = pieces.At(thread, i, kEach);
      const int64_t from = Modulo(a.shift + piece[i].row, a.sequence);
      eight[i].Ask(a.table, from * a.columns + piece[i].first, piece[i].count, aligned);
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      C x[kBlock];
      eight[i].Get(x);
      StoreEight<C, S>(a.y, piece[i].row * a.columns + piece[i].first, piece[i].count, aligned, x);
    }
  }
};

template <typename C, Type S>
struct AddPositions {
  static constexpr int kMaxThreads = kThreads;
  PositionEmbeddingBackward a;
  Pieces pieces;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const auto [position, first, count] = pieces.At(thread, 0, 1);
    const bool aligned = pieces.Aligned();
    if (count <= 0 || (position >= a.sequence && a.accumulate)) return;
    C sum[kBlock] = {};
    if (position < a.sequence) {
      // The first row of dy with this position.
      int64_t row = position - Modulo(a.shift, a.sequence);
      if (row < 0) row += a.sequence;
      for (; row < a.rows; row += kTogether * a.sequence) {
        Eight<C, S> dy[kTogether];
#pragma unroll
        for (int k = 0; k < kTogether; ++k) {
          const int64_t r = row + k * a.sequence;
          dy[k].Ask(a.dy, r * a.columns + first, r < a.rows ? count : 0, aligned);
        }
#pragma unroll
        for (int k = 0; k < kTogether; ++k) {
          C x[kBlock];
          dy[k].Get(x);
#pragma unroll
          for (int j = 0; j < kBlock; ++j) sum[j] += x[j];
        }
      }
    }
    WriteSome<C>(a.dtable, position * a.columns + first, count, aligned, a.accumulate, sum);
  }
};

}  // namespace

Outcome Launch(const Embedding& a, void* stream) {
  const Pieces pieces = Pieces::Of(a.rows, a.columns);
  return WithEights(a.in_double, a.columns % kBlock == 0, {a.table, a.y}, {}, [&]<typename C, Type S>() {
    return LaunchKernel(Gather<C, S>{a, pieces}, pieces.Blocks(kEach), kThreads, 0, stream);
  });
}

int64_t EmbeddingBackward::ScratchBytes() const { return 4 * Index::Numbers(rows, table_rows); }

Outcome Launch(const EmbeddingBackward& a, void* stream) {
  const Index index = Index::In(a.scratch, a.rows, a.table_rows);
  const int64_t tiles = CeilDivide(a.columns, kWarp * kBlock), row_blocks = CeilDivide(a.rows, kThreads);
  const int64_t cleared = 2 * a.table_rows + Index::kTotals;
  Outcome outcome = LaunchKernel(ClearIndex{index, cleared}, CeilDivide(cleared, kThreads), kThreads, 0, stream);
  if (outcome == nullptr) outcome = LaunchKernel(CountNames{a, index}, row_blocks, kThreads, 0, stream);
  if (outcome == nullptr) {
    const int64_t blocks = CeilDivide(a.table_rows, kThreads);
    outcome = LaunchKernel(PlaceRows{a, index}, blocks, kThreads, PlaceRows::kSharedBytes, stream);
  }
  if (outcome == nullptr) outcome = LaunchKernel(PlaceNames{a, index}, row_blocks, kThreads, 0, stream);
  if (outcome == nullptr) outcome = LaunchKernel(SortNames{a, index}, row_blocks, kThreads, 0, stream);
  if (outcome != nullptr) return outcome;
  // Most rows of a large table are not named. With `accumulate`, nothing is launched for them.
  const int64_t touched = a.accumulate ? Index::MaxNamed(a.rows, a.table_rows) : a.table_rows;
  return WithEights(a.in_double, a.columns % kBlock == 0, {a.dy}, {}, [&]<typename C, Type S>() {
    const Outcome few =
        LaunchKernel(AddFew<C, S>{a, index, tiles}, CeilDivide(touched * tiles, kThreads / kWarp), kThreads, 0, stream);
    if (few != nullptr) return few;
    return LaunchKernel(AddOften<C, S>{a, index, tiles}, Index::MaxOften(a.rows) * tiles, kThreads,
                        kThreads * kBlock * static_cast<int64_t>(sizeof(C)), stream);
  });
}

Outcome Launch(const PositionEmbedding& a, void* stream) {
  const Pieces pieces = Pieces::Of(a.rows, a.columns);
  return WithEights(a.in_double, a.columns % kBlock == 0, {a.table, a.y}, {}, [&]<typename C, Type S>() {
    return LaunchKernel(GatherPositions<C, S>{a, pieces}, pieces.Blocks(kEach), kThreads, 0, stream);
  });
}

Outcome Launch(const PositionEmbeddingBackward& a, void* stream) {
  const Pieces pieces = Pieces::Of(a.table_rows, a.columns);
  return WithEights(a.in_double, a.columns % kBlock == 0, {a.dy}, {}, [&]<typename C, Type S>() {
    return LaunchKernel(AddPositions<C, S>{a, pieces}, pieces.Blocks(1), kThreads, 0, stream);
  });
}

}  // namespace weft::exec::cuda
