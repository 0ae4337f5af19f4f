// Reads each element once. A block sums a chunk of rows of 256 columns; its eight warps take rows in turns, four rows
// at a time. Then the block adds its warps' sums, and a second launch adds the chunks' sums. The order of all additions
// depends only on the shape.
#include "executor/backends/cuda/kernels/column_chunks.h"
#include "executor/backends/cuda/kernels/column_sums.h"
#include "executor/backends/cuda/kernels/eights.h"
#include "executor/backends/cuda/kernels/elementwise_ops.h"

namespace weft::exec::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
static_assert(kWarps == kColumnTurns);
constexpr int kTile = kWarp * kBlock;
// Rows that a warp loads together.
constexpr int kTogether = 4;
// Number of blocks that a launch aims for: several times as many as a large GPU runs at a time, so that its
// multiprocessors finish at about the same time.
constexpr int64_t kWantedBlocks = 2112;
// Number of chunks to aim for if one block sums all columns of a chunk and each of its threads has sixteen columns
// (norm.h): 512 threads for each of 132 multiprocessors. For up to kNarrow columns the number is doubled.
constexpr int64_t kWantedChunks = 264, kNarrow = 2048;
// Up to this many columns, a norm's backward does not sum them itself (norm.h).
constexpr int64_t kFew = 1024;

// kNone: the launch makes only plain sums. Otherwise it also sums dy (x - mean) rstd. kOfRows: each row has one mean.
// kOfGroups: a run of rows has one mean for each group of columns.
enum class Products { kNone, kOfRows, kOfGroups };

// kMake: the op that makes dy; kCast = dy is given.
template <typename C, Type S, Products kProducts, ElementwiseOp kMake = ElementwiseOp::kCast>
struct SumChunks {
  static constexpr int kMaxThreads = kThreads;
  static constexpr int kMinBlocks = S == Type::kNone ? 1 : 2;
  static constexpr bool kMakes = kMake != ElementwiseOp::kCast;
  ColumnSums a;
  int64_t chunks, per_chunk, tiles;

  WEFT_DEVICE int64_t StatisticOf(int64_t row, int64_t column) const {
    if constexpr (kProducts != Products::kOfGroups) return row;
    return Divide(row, a.rows_of_statistic) * a.groups + Divide(column, Divide(a.columns, a.groups));
  }

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t tile = Modulo(thread.block(), tiles), rest = Divide(thread.block(), tiles);
    const int64_t chunk = Modulo(rest, chunks), segment = Divide(rest, chunks);
    const int64_t begin = segment * a.rows + chunk * per_chunk;
    const int64_t end = segment * a.rows + Least(a.rows, (chunk + 1) * per_chunk);
    const int64_t column = tile * kTile + thread.lane() * kBlock;
    const int64_t count = a.columns - column;
    const bool aligned = a.columns % kBlock == 0;
    C plain[kBlock] = {}, products[kBlock] = {};
    if (count > 0) {
      for (int64_t row = begin + thread.warp(); row < end; row += kTogether * kWarps) {
        Eight<C, S> dy[kTogether], x[kTogether];
        C mean[kTogether], rstd[kTogether];
#pragma unroll
        for (int k = 0; k < kTogether; ++k) {
          const int64_t r = row + k * kWarps, inside = r < end ? count : 0;
          dy[k].Ask(a.dy, r * a.columns + column, inside, aligned);
          if constexpr (kMakes || kProducts != Products::kNone) {
            x[k].Ask(a.x, r * a.columns + column, inside, aligned);
          }
          if constexpr (kProducts != Products::kNone) {
            const int64_t s = inside == 0 ? 0 : StatisticOf(r, column);
            mean[k] = a.mean.data == nullptr ? C(0) : Statistic<C, S>(a.mean, s);
            rstd[k] = a.rstd.data == nullptr ? C(1) : Statistic<C, S>(a.rstd, s);
          }
        }
        // Rows after the end are zeros.
#pragma unroll
        for (int k = 0; k < kTogether; ++k) {
          C of_dy[kBlock];
          dy[k].Get(of_dy);
          if constexpr (kMakes) {
            const int64_t r = row + k * kWarps;
            MakeEight(r * a.columns + column, r < end ? count : 0, aligned, x[k], of_dy);
          }
#pragma unroll
          for (int i = 0; i < kBlock; ++i) plain[i] += of_dy[i];
          if constexpr (kProducts != Products::kNone) {
            C of_x[kBlock];
            x[k].Get(of_x);
#pragma unroll
            for (int i = 0; i < kBlock; ++i) {
              if constexpr (kProducts == Products::kOfGroups && S == Type::kNone) {
                // The eight elements may belong to several groups.
                if (i >= count || row + k * kWarps >= end) continue;
                const int64_t s = StatisticOf(row + k * kWarps, column + i);
                mean[k] = Load<C>(a.mean, s);
                rstd[k] = Load<C>(a.rstd, s);
              }
              products[i] += of_dy[i] * ((of_x[i] - mean[k]) * rstd[k]);
            }
          }
        }
      }
    }
    const auto shared = thread.template Shared<C>(0, kWarps * kTile);
    for (int which = 0; which < (kProducts == Products::kNone ? 1 : 2); ++which) {
      thread.Sync();
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        // Neighboring lanes write to neighboring banks.
        shared.Put(thread.warp() * kTile + i * kWarp + thread.lane(), which == 0 ? plain[i] : products[i]);
      }
      thread.Sync();
      const int of_tile = thread.index();
      const int64_t to = tile * kTile + of_tile;
      if (to < a.columns) {
        C sum = 0;
        for (int warp = 0; warp < kWarps; ++warp) {
          sum += shared[warp * kTile + of_tile % kBlock * kWarp + of_tile / kBlock];
        }
        static_cast<C*>(a.scratch)[((segment * chunks + chunk) * kColumnResults + which) * a.columns + to] = sum;
      }
    }
  }

  // Replaces dy by the op's result, as it is stored.
  WEFT_DEVICE void MakeEight(int64_t first, int64_t count, bool aligned, const Eight<C, S>& x, C (&dy)[kBlock]) const {
    C of_x[kBlock];
    x.Get(of_x);
#pragma unroll
    for (int i = 0; i < kBlock; ++i) {
      const C of[2] = {dy[i], of_x[i]};
      Op<kMake>::Apply(of, C(1), &dy[i]);
    }
    StoreEight<C, S>(a.made, first, count, aligned, dy);
    Eight<C, S> stored;
    stored.Set(a.made, dy);
    stored.Get(dy);
  }
};

// A block handles 32 columns of one result. Each warp sums every eighth chunk and loads many together, because a launch
// has few blocks and its time is that of its loads one after the other; then the warps' sums are added.
template <typename C>
struct AddChunks {
  static constexpr int kMaxThreads = kThreads;
  static constexpr int kTogether = 32;
  ColumnSums a;
  int64_t chunks, tiles;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t result = Divide(thread.block(), tiles), segment = result / kColumnResults,
                  which = result % kColumnResults;
    const Array& to = which == 0 ? a.plain : which == 1 ? a.products : a.beside;
    // All threads of the block take the same branch.
    if (to.data == nullptr) return;
    const int64_t column = (thread.block() - result * tiles) * kWarp + thread.lane();
    const C* const parts =
        static_cast<const C*>(a.scratch) + (segment * chunks * kColumnResults + which) * a.columns + column;
    C sum = 0;
    for (int64_t chunk = thread.warp(); chunk < chunks; chunk += kTogether * kWarps) {
      C part[kTogether];
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        const int64_t c = chunk + k * kWarps;
        part[k] = c < chunks && column < a.columns ? parts[c * kColumnResults * a.columns] : C(0);
      }
#pragma unroll
      for (int k = 0; k < kTogether; ++k) sum += part[k];
    }
    const auto shared = thread.template Shared<C>(0, kThreads);
    shared.Put(thread.index(), sum);
    thread.Sync();
    if (thread.warp() != 0 || column >= a.columns) return;
    for (int warp = 1; warp < kWarps; ++warp) sum += shared[warp * kWarp + thread.lane()];
    const int64_t offset = which == 0 ? a.plain_offset : which == 1 ? a.products_offset : 0;
    const int64_t place = segment * a.stride + offset + column;
    if (which == 2 ? a.accumulate_beside : a.accumulate) sum += Load<C>(to, place);
    Store<C>(to, place, sum);
  }
};

template <typename C>
Outcome LaunchAdd(const ColumnSums& sums, void* stream) {
  const int64_t tiles = CeilDivide(sums.columns, kWarp);
  return LaunchKernel(AddChunks<C>{sums, sums.Chunks(), tiles}, sums.segments * kColumnResults * tiles, kThreads,
                      kThreads * static_cast<int64_t>(sizeof(C)), stream);
}

}  // namespace

int64_t ColumnSums::RowsOfChunk() const {
  const int64_t tiles = CeilDivide(columns, kTile) * segments;
  int64_t wanted = tiles == 0 ? 1 : CeilDivide(kWantedBlocks, tiles);
  const int64_t least = columns <= kNarrow ? 2 * kWantedChunks : kWantedChunks;
  if (segments == 1 && wanted < least) wanted = least;
  // All turns have the same number of rows. Few columns would have thousands of chunks of a few rows, whose sums take
  // longer to add than the rows. More columns may be summed by a norm's backward, which needs many chunks.
  const int64_t of_turn = CeilDivide(CeilDivide(rows, wanted), kColumnTurns);
  const int64_t least_of_turn = columns <= kFew ? kTogether : 1;
  return (of_turn > least_of_turn ? of_turn : least_of_turn) * kColumnTurns;
}

int64_t ColumnSums::Chunks() const {
  const int64_t chunks = CeilDivide(rows, RowsOfChunk());
  return chunks > 1 ? chunks : 1;
}

Outcome AddColumnChunks(const ColumnSums& sums, void* stream) {
  return sums.in_double ? LaunchAdd<double>(sums, stream) : LaunchAdd<float>(sums, stream);
}

Outcome Launch(const ColumnSums& sums, void* stream) {
  const int64_t chunks = sums.Chunks(), per_chunk = sums.RowsOfChunk(), tiles = CeilDivide(sums.columns, kTile),
                blocks = tiles * chunks * sums.segments;
  // True if every eight elements that a thread handles lie in one row and one group.
  const bool whole = sums.columns / sums.groups % kBlock == 0;
  const Outcome first = WithEights(
      sums.in_double, whole, {sums.dy, sums.x, sums.made}, {sums.mean, sums.rstd}, [&]<typename C, Type S>() {
        const auto launch = [&](const auto& kernel) {
          return LaunchKernel(kernel, blocks, kThreads, kWarps * kTile * int64_t{sizeof(C)}, stream);
        };
        if (sums.made.data != nullptr) {
          if (sums.make == ElementwiseOp::kGeluTanhBackward) {
            return launch(
                SumChunks<C, S, Products::kNone, ElementwiseOp::kGeluTanhBackward>{sums, chunks, per_chunk, tiles});
          }
          return launch(SumChunks<C, S, Products::kNone, ElementwiseOp::kGeluBackward>{sums, chunks, per_chunk, tiles});
        }
        if (sums.products.data == nullptr) {
          return launch(SumChunks<C, S, Products::kNone>{sums, chunks, per_chunk, tiles});
        }
        if (sums.groups == 1 && sums.rows_of_statistic == 1) {
          return launch(SumChunks<C, S, Products::kOfRows>{sums, chunks, per_chunk, tiles});
        }
        return launch(SumChunks<C, S, Products::kOfGroups>{sums, chunks, per_chunk, tiles});
      });
  return first != nullptr ? first : AddColumnChunks(sums, stream);
}

}  // namespace weft::exec::cuda
