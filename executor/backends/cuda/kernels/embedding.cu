#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/embedding.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

WEFT_DEVICE float NotANumber(float) { return FloatOfBits(0x7fc00000u); }
WEFT_DEVICE double NotANumber(double) { return static_cast<double>(FloatOfBits(0x7fc00000u)); }

// Row of the table for a token; -1: none.
WEFT_DEVICE int64_t TableRow(int32_t token, int64_t shift, int64_t table_rows) {
  const int64_t row = token - shift;
  return token >= 0 && row >= 0 && row < table_rows ? row : -1;
}

template <typename C, Type S>
struct Gather {
  static constexpr int kMaxThreads = kThreads;
  Embedding a;
  int64_t per_row;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t item = thread.block() * thread.count() + thread.index();
    if (item >= a.rows * per_row) return;
    const int64_t row = Divide(item, per_row), first = (item - row * per_row) * kBlock;
    const int64_t count = a.columns - first;
    const bool aligned = a.columns % kBlock == 0;
    const int64_t from = TableRow(a.tokens[row], a.shift, a.table_rows);
    C x[kBlock];
    if (from >= 0) {
      LoadSome<C, S>(a.table, from * a.columns + first, count, aligned, x);
    } else {
      const C value = a.split && a.tokens[row] >= 0 ? C(0) : NotANumber(C(0));
#pragma unroll
      for (int i = 0; i < kBlock; ++i) x[i] = value;
    }
    StoreSome<C, S>(a.y, row * a.columns + first, count, aligned, x);
  }
};

// Memory of the backward: how often each row of the table is named, the place of its first name in `order`, how many
// have been put there, rows of dy by row of the table, and the rows of the table that are named often.
struct Index {
  int32_t* count;
  int32_t* begin;
  int32_t* placed;
  int32_t* unsorted;
  int32_t* order;
  // [0]: how many there are.
  int32_t* often;

  static int64_t Numbers(int64_t rows, int64_t table_rows) {
    return 3 * table_rows + 2 * rows + 1 + rows / EmbeddingBackward::kFew + 1;
  }
  static Index In(void* scratch, int64_t rows, int64_t table_rows) {
    auto* p = static_cast<int32_t*>(scratch);
    Index index;
    index.count = p;
    index.placed = p + table_rows;
    index.often = p + 2 * table_rows;
    index.begin = index.often + 1 + rows / EmbeddingBackward::kFew + 1;
    index.unsorted = index.begin + table_rows;
    index.order = index.unsorted + rows;
    return index;
  }
};

// count, placed and often[0] become 0.
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

// One block: begin = sums of the counts before.
struct SumCounts {
  static constexpr int kMaxThreads = 1024;
  static constexpr int kScanThreads = 1024;
  EmbeddingBackward a;
  Index index;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const auto sums = thread.template Shared<int32_t>(0, kScanThreads);
    // Each thread has a run of rows of the table.
    const int64_t run = Divide(a.table_rows + kScanThreads - 1, kScanThreads);
    const int64_t first = thread.index() * run, end = Least(a.table_rows, first + run);
    int32_t own = 0;
    for (int64_t i = first; i < end; ++i) own += index.count[i];
    sums[thread.index()] = own;
    thread.Sync();
    for (int step = 1; step < kScanThreads; step *= 2) {
      const int32_t before = thread.index() >= step ? sums[thread.index() - step] : 0;
      thread.Sync();
      sums[thread.index()] += before;
      thread.Sync();
    }
    int32_t total = sums[thread.index()] - own;
    for (int64_t i = first; i < end; ++i) {
      index.begin[i] = total;
      total += index.count[i];
      // In any order: each is done by itself.
      if (index.count[i] > EmbeddingBackward::kFew) {
        index.often[1 + thread.AtomicAdd(index.often, 1)] = static_cast<int32_t>(i);
      }
    }
  }
};

// Rows of dy that name the same row of the table come together, in any order.
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

// A warp puts each of its 32 rows of dy at its place among those with the same row of the table: as many as are less.
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

// A warp has 256 columns of a row of the table.
template <typename C, Type S>
struct AddFew {
  static constexpr int kMaxThreads = kThreads;
  EmbeddingBackward a;
  Index index;
  int64_t tiles;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t item = thread.block() * thread.warps() + thread.warp();
    const int64_t row = Divide(item, tiles), tile = item - row * tiles;
    if (row >= a.table_rows) return;
    const int32_t names = index.count[row];
    if (names > EmbeddingBackward::kFew || (names == 0 && a.accumulate)) return;
    const int64_t first = (tile * kWarp + thread.lane()) * kBlock, count = a.columns - first;
    if (count <= 0) return;
    const bool aligned = a.columns % kBlock == 0;
    C sum[kBlock] = {};
    for (int32_t i = 0; i < names; ++i) {
      C dy[kBlock];
      LoadSome<C, S>(a.dy, static_cast<int64_t>(index.order[index.begin[row] + i]) * a.columns + first, count, aligned,
                     dy);
#pragma unroll
      for (int j = 0; j < kBlock; ++j) sum[j] += dy[j];
    }
    WriteSome<C>(a.dtable, row * a.columns + first, count, aligned, a.accumulate, sum);
  }
};

// A block has 256 columns of a row of the table that is named often; each warp takes every eighth name.
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
    // The same for the whole block.
    if (which >= index.often[0]) return;
    const int64_t row = index.often[1 + which];
    const int32_t names = index.count[row];
    const int64_t first = (tile * kWarp + thread.lane()) * kBlock, count = a.columns - first;
    const bool aligned = a.columns % kBlock == 0;
    C sum[kBlock] = {};
    if (count > 0) {
#pragma unroll 2
      for (int32_t i = thread.warp(); i < names; i += kWarps) {
        C dy[kBlock];
        LoadSome<C, S>(a.dy, static_cast<int64_t>(index.order[index.begin[row] + i]) * a.columns + first, count,
                       aligned, dy);
#pragma unroll
        for (int j = 0; j < kBlock; ++j) sum[j] += dy[j];
      }
    }
    const auto shared = thread.template Shared<C>(0, kWarps * kWarp * kBlock);
#pragma unroll
    for (int j = 0; j < kBlock; ++j) shared[(thread.warp() * kBlock + j) * kWarp + thread.lane()] = sum[j];
    thread.Sync();
    if (thread.warp() != 0 || count <= 0) return;
    for (int warp = 1; warp < kWarps; ++warp) {
#pragma unroll
      for (int j = 0; j < kBlock; ++j) sum[j] += shared[(warp * kBlock + j) * kWarp + thread.lane()];
    }
    WriteSome<C>(a.dtable, row * a.columns + first, count, aligned, a.accumulate, sum);
  }
};

template <typename C, Type S>
struct GatherPositions {
  static constexpr int kMaxThreads = kThreads;
  PositionEmbedding a;
  int64_t per_row;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t item = thread.block() * thread.count() + thread.index();
    if (item >= a.rows * per_row) return;
    const int64_t row = Divide(item, per_row), first = (item - row * per_row) * kBlock;
    const int64_t count = a.columns - first;
    const bool aligned = a.columns % kBlock == 0;
    C x[kBlock];
    LoadSome<C, S>(a.table, Modulo(a.shift + row, a.sequence) * a.columns + first, count, aligned, x);
    StoreSome<C, S>(a.y, row * a.columns + first, count, aligned, x);
  }
};

template <typename C, Type S>
struct AddPositions {
  static constexpr int kMaxThreads = kThreads;
  PositionEmbeddingBackward a;
  int64_t per_row;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t item = thread.block() * thread.count() + thread.index();
    if (item >= a.table_rows * per_row) return;
    const int64_t position = Divide(item, per_row), first = (item - position * per_row) * kBlock;
    const int64_t count = a.columns - first;
    const bool aligned = a.columns % kBlock == 0;
    if (position >= a.sequence && a.accumulate) return;
    C sum[kBlock] = {};
    if (position < a.sequence) {
      // The first row with this position.
      int64_t row = position - Modulo(a.shift, a.sequence);
      if (row < 0) row += a.sequence;
#pragma unroll 4
      for (; row < a.rows; row += a.sequence) {
        C dy[kBlock];
        LoadSome<C, S>(a.dy, row * a.columns + first, count, aligned, dy);
#pragma unroll
        for (int i = 0; i < kBlock; ++i) sum[i] += dy[i];
      }
    }
    WriteSome<C>(a.dtable, position * a.columns + first, count, aligned, a.accumulate, sum);
  }
};

}  // namespace

Outcome Launch(const Embedding& embedding, void* stream) {
  const int64_t per_row = CeilDivide(embedding.columns, kBlock);
  return WithTypes(embedding.in_double, {embedding.table, embedding.y}, [&]<typename C, Type S>() {
    return LaunchKernel(Gather<C, S>{embedding, per_row}, CeilDivide(embedding.rows * per_row, kThreads), kThreads, 0,
                        stream);
  });
}

int64_t EmbeddingBackward::ScratchBytes() const { return 4 * Index::Numbers(rows, table_rows); }

Outcome Launch(const EmbeddingBackward& a, void* stream) {
  const Index index = Index::In(a.scratch, a.rows, a.table_rows);
  const int64_t tiles = CeilDivide(a.columns, kWarp * kBlock), row_blocks = CeilDivide(a.rows, kThreads);
  const int64_t cleared = 2 * a.table_rows + 1;
  Outcome outcome = LaunchKernel(ClearIndex{index, cleared}, CeilDivide(cleared, kThreads), kThreads, 0, stream);
  if (outcome == nullptr) outcome = LaunchKernel(CountNames{a, index}, row_blocks, kThreads, 0, stream);
  if (outcome == nullptr) {
    outcome = LaunchKernel(SumCounts{a, index}, 1, SumCounts::kScanThreads, 4 * SumCounts::kScanThreads, stream);
  }
  if (outcome == nullptr) outcome = LaunchKernel(PlaceNames{a, index}, row_blocks, kThreads, 0, stream);
  if (outcome == nullptr) outcome = LaunchKernel(SortNames{a, index}, row_blocks, kThreads, 0, stream);
  if (outcome != nullptr) return outcome;
  return WithTypes(a.in_double, {a.dy}, [&]<typename C, Type S>() {
    const Outcome few = LaunchKernel(AddFew<C, S>{a, index, tiles}, CeilDivide(a.table_rows * tiles, kThreads / kWarp),
                                     kThreads, 0, stream);
    if (few != nullptr) return few;
    return LaunchKernel(AddOften<C, S>{a, index, tiles}, a.rows / (EmbeddingBackward::kFew + 1) * tiles, kThreads,
                        kThreads * kBlock * static_cast<int64_t>(sizeof(C)), stream);
  });
}

Outcome Launch(const PositionEmbedding& embedding, void* stream) {
  const int64_t per_row = CeilDivide(embedding.columns, kBlock);
  return WithTypes(embedding.in_double, {embedding.table, embedding.y}, [&]<typename C, Type S>() {
    return LaunchKernel(GatherPositions<C, S>{embedding, per_row}, CeilDivide(embedding.rows * per_row, kThreads),
                        kThreads, 0, stream);
  });
}

Outcome Launch(const PositionEmbeddingBackward& embedding, void* stream) {
  const int64_t per_row = CeilDivide(embedding.columns, kBlock);
  return WithTypes(embedding.in_double, {embedding.dy}, [&]<typename C, Type S>() {
    return LaunchKernel(AddPositions<C, S>{embedding, per_row}, CeilDivide(embedding.table_rows * per_row, kThreads),
                        kThreads, 0, stream);
  });
}

}  // namespace weft::cuda
