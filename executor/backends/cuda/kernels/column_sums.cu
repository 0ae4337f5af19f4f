// One pass over memory: a block adds up a chunk of rows of 256 columns, eight warps taking every eighth row; then the
// warps' sums, and in a second launch the chunks', are added in order.
#include "executor/backends/cuda/kernels/access.h"
#include "executor/backends/cuda/kernels/column_sums.h"

namespace weft::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kTile = kWarp * kBlock;
// Blocks that keep a large GPU busy.
constexpr int64_t kWantedBlocks = 1056;
// A chunk has at least so many rows.
constexpr int64_t kLeastRows = 4 * kWarps;

template <typename C, Type S>
struct SumChunks {
  static constexpr int kMaxThreads = kThreads;
  ColumnSums a;
  int64_t chunks, tiles;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t tile = Modulo(thread.block(), tiles), rest = Divide(thread.block(), tiles);
    const int64_t chunk = Modulo(rest, chunks), segment = Divide(rest, chunks);
    const int64_t per_chunk = Divide(a.rows + chunks - 1, chunks);
    const int64_t begin = segment * a.rows + chunk * per_chunk;
    const int64_t end = segment * a.rows + Least(a.rows, (chunk + 1) * per_chunk);
    const int64_t column = tile * kTile + thread.lane() * kBlock;
    const int64_t count = a.columns - column;
    const bool aligned = a.columns % kBlock == 0;
    const bool with_products = a.products.data != nullptr;
    C plain[kBlock] = {}, products[kBlock] = {};
    if (count > 0) {
#pragma unroll 2
      for (int64_t row = begin + thread.warp(); row < end; row += kWarps) {
        C dy[kBlock];
        LoadSome<C, S>(a.dy, row * a.columns + column, count, aligned, dy);
#pragma unroll
        for (int i = 0; i < kBlock; ++i) plain[i] += dy[i];
        if (with_products) {
          C x[kBlock];
          LoadSome<C, S>(a.x, row * a.columns + column, count, aligned, x);
          const C mean = a.mean.data == nullptr ? C(0) : Load<C>(a.mean, row);
          const C rstd = a.rstd.data == nullptr ? C(1) : Load<C>(a.rstd, row);
#pragma unroll
          for (int i = 0; i < kBlock; ++i) products[i] += dy[i] * ((x[i] - mean) * rstd);
        }
      }
    }
    const auto shared = thread.template Shared<C>(0, kWarps * kTile);
    for (int which = 0; which < 2; ++which) {
      thread.Sync();
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        // Neighbouring lanes in neighbouring banks.
        shared[thread.warp() * kTile + i * kWarp + thread.lane()] = which == 0 ? plain[i] : products[i];
      }
      thread.Sync();
      const int of_tile = thread.index();
      const int64_t to = tile * kTile + of_tile;
      if (to < a.columns) {
        C sum = 0;
        for (int warp = 0; warp < kWarps; ++warp) {
          sum += shared[warp * kTile + of_tile % kBlock * kWarp + of_tile / kBlock];
        }
        static_cast<C*>(a.scratch)[((segment * chunks + chunk) * 2 + which) * a.columns + to] = sum;
      }
    }
  }
};

template <typename C>
struct AddChunks {
  static constexpr int kMaxThreads = kThreads;
  ColumnSums a;
  int64_t chunks;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const int64_t item = thread.block() * thread.count() + thread.index();
    if (item >= a.segments * 2 * a.columns) return;
    const int64_t segment = Divide(item, 2 * a.columns), rest = item - segment * 2 * a.columns;
    const int64_t which = rest >= a.columns ? 1 : 0, column = rest - which * a.columns;
    const Array& to = which == 0 ? a.plain : a.products;
    if (to.data == nullptr) return;
    C sum = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      sum += static_cast<const C*>(a.scratch)[((segment * chunks + chunk) * 2 + which) * a.columns + column];
    }
    const int64_t place = segment * a.stride + (which == 0 ? a.plain_offset : a.products_offset) + column;
    if (a.accumulate) sum += Load<C>(to, place);
    Store<C>(to, place, sum);
  }
};

}  // namespace

int64_t ColumnSums::Chunks() const {
  const int64_t tiles = CeilDivide(columns, kTile) * segments;
  const int64_t wanted = tiles == 0 ? 1 : CeilDivide(kWantedBlocks, tiles);
  const int64_t most = CeilDivide(rows, kLeastRows);
  return wanted < most ? wanted : most > 1 ? most : 1;
}

Outcome Launch(const ColumnSums& sums, void* stream) {
  const int64_t chunks = sums.Chunks(), tiles = CeilDivide(sums.columns, kTile);
  const Outcome first = WithTypes(sums.in_double, {sums.dy, sums.x}, [&]<typename C, Type S>() {
    return LaunchKernel(SumChunks<C, S>{sums, chunks, tiles}, tiles * chunks * sums.segments, kThreads,
                        kWarps * kTile * static_cast<int64_t>(sizeof(C)), stream);
  });
  if (first != nullptr) return first;
  const int64_t blocks = CeilDivide(sums.segments * 2 * sums.columns, kThreads);
  return sums.in_double ? LaunchKernel(AddChunks<double>{sums, chunks}, blocks, kThreads, 0, stream)
                        : LaunchKernel(AddChunks<float>{sums, chunks}, blocks, kThreads, 0, stream);
}

}  // namespace weft::cuda
