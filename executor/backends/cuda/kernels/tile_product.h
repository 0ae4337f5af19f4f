// Matrix products whose factors a struct defines, for shapes and layouts that no library supports. weft's own kernels
// of attention and convolution use them.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TILE_PRODUCT_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TILE_PRODUCT_H_

#include "executor/backends/cuda/kernels/portable.h"

namespace weft::exec::cuda {

// A block computes a tile of kTile x kTile elements of one product, each thread 4 x 4 of them, kTileDepth terms at a
// time.
inline constexpr int kTile = 64;
inline constexpr int kTileDepth = 16;
inline constexpr int kTileThreads = 256;

// Sizes of one product [rows, depth] x [depth, columns], and the number of products.
struct ProductShape {
  int64_t products = 0, rows = 0, columns = 0, depth = 0;

  WEFT_DEVICE int64_t RowTiles() const { return Divide(rows + kTile - 1, kTile); }
  WEFT_DEVICE int64_t ColumnTiles() const { return Divide(columns + kTile - 1, kTile); }
};

// The product, row and column at which a block's tile begins.
struct TilePlace {
  int64_t product, row, column;

  WEFT_DEVICE static TilePlace Of(const ProductShape& shape, int64_t block) {
    const int64_t of_row = shape.ColumnTiles(), of_product = shape.RowTiles() * of_row;
    const int64_t product = Divide(block, of_product), tile = block - product * of_product;
    const int64_t row = Divide(tile, of_row);
    return {product, row * kTile, (tile - row * of_row) * kTile};
  }
};

// Factors has, for product p:
//   using Compute                      float or double
//   static constexpr int64_t kRun      an element is a sum of sums over runs of this many terms; 0 = one run
//   ProductShape shape
//   bool left_by_depth, right_by_depth true if memory runs along the depth; decides which thread loads what
//   Compute Left(p, row, k), Right(p, k, column), void Write(p, row, column, sum)
// Terms are added in ascending k.
template <typename Factors>
struct TileProduct {
  static constexpr int kMaxThreads = kTileThreads;
  // One column more than needed, so that threads storing down a column access different banks.
  static constexpr int kPitch = kTile + 1;
  using C = typename Factors::Compute;
  static constexpr int64_t kSharedBytes = int64_t{2} * kTileDepth * kPitch * int64_t{sizeof(C)};
  Factors factors;

  template <typename Thread>
  WEFT_DEVICE void operator()(Thread& thread) const {
    const auto left = thread.template Shared<C>(0, kTileDepth * kPitch);
    const auto right =
        thread.template Shared<C>(int64_t{kTileDepth} * kPitch * int64_t{sizeof(C)}, kTileDepth * kPitch);
    const ProductShape& shape = factors.shape;
    const TilePlace place = TilePlace::Of(shape, thread.block());
    const int x = thread.index() % 16, y = thread.index() / 16;
    C sum[4][4] = {}, total[4][4] = {};
    for (int64_t k = 0; k < shape.depth; k += kTileDepth) {
      LoadTile(thread, place, k, left, right);
      thread.Sync();
#pragma unroll
      for (int d = 0; d < kTileDepth; ++d) {
        C a[4], b[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = left[d * kPitch + y + 16 * i];
#pragma unroll
        for (int j = 0; j < 4; ++j) b[j] = right[d * kPitch + x + 16 * j];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) sum[i][j] += a[i] * b[j];
        }
      }
      thread.Sync();
      if (Factors::kRun != 0 && (k + kTileDepth) % (Factors::kRun == 0 ? 1 : Factors::kRun) == 0) {
        AddRun(sum, total);
      }
    }
    if (Factors::kRun != 0) AddRun(sum, total);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int64_t row = place.row + y + 16 * i, column = place.column + x + 16 * j;
        if (row >= shape.rows || column >= shape.columns) continue;
        factors.Write(place.product, row, column, Factors::kRun != 0 ? total[i][j] : sum[i][j]);
      }
    }
  }

 private:
  // Loads the tiles of both factors, with zeros beyond the factors.
  template <typename Thread, typename Shared>
  WEFT_DEVICE void LoadTile(Thread& thread, const TilePlace& place, int64_t k, const Shared& left,
                            const Shared& right) const {
    const ProductShape& shape = factors.shape;
    for (int e = thread.index(); e < kTile * kTileDepth; e += kTileThreads) {
      const int d = factors.left_by_depth ? e % kTileDepth : e / kTile;
      const int i = factors.left_by_depth ? e / kTileDepth : e % kTile;
      const bool inside = k + d < shape.depth && place.row + i < shape.rows;
      left.Put(d * kPitch + i, inside ? factors.Left(place.product, place.row + i, k + d) : C(0));
    }
    for (int e = thread.index(); e < kTile * kTileDepth; e += kTileThreads) {
      const int d = factors.right_by_depth ? e % kTileDepth : e / kTile;
      const int j = factors.right_by_depth ? e / kTileDepth : e % kTile;
      const bool inside = k + d < shape.depth && place.column + j < shape.columns;
      right.Put(d * kPitch + j, inside ? factors.Right(place.product, k + d, place.column + j) : C(0));
    }
  }

  static WEFT_DEVICE void AddRun(C (&sum)[4][4], C (&total)[4][4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        total[i][j] += sum[i][j];
        sum[i][j] = 0;
      }
    }
  }
};

template <typename Factors>
Outcome LaunchTileProduct(const Factors& factors, void* stream) {
  const ProductShape& shape = factors.shape;
  const int64_t tiles = CeilDivide(shape.rows, kTile) * CeilDivide(shape.columns, kTile);
  return LaunchKernel(TileProduct<Factors>{factors}, shape.products * tiles, kTileThreads,
                      TileProduct<Factors>::kSharedBytes, stream);
}

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_TILE_PRODUCT_H_
