// Matrix products on packed operands, for the files that are compiled once per instruction set (cpu_loops.h).
//
// B is packed once per product into panels of kPanel columns. The thread that multiplies a block of rows of A packs
// that block. The innermost kernel keeps a tile of kTileRows x kPanel results in registers. Every result is one chain
//   ((a0*b0 + a1*b1) + a2*b2) + ...
// over ascending k, whatever the tile: a block of k passes its unfinished sums to the next block in full precision.
#ifndef WEFT_EXECUTOR_BACKENDS_CPU_CPU_LOOPS_GEMM_H_
#define WEFT_EXECUTOR_BACKENDS_CPU_CPU_LOOPS_GEMM_H_

#include "executor/backends/cpu/cpu_loops.h"
#include "executor/backends/cpu/cpu_loops_simd.h"

namespace weft::exec::cpu {
namespace {

// The sums of a tile take 24 of 32 registers with AVX-512, else 12 of 16.
#if defined(__AVX512F__)
constexpr int kTileRows = 12;
#else
constexpr int kTileRows = 6;
#endif
constexpr int kTileVectors = 2;
static_assert(kRowBlock % kTileRows == 0);

template <typename T>
constexpr int kPanel = kTileVectors * Register<T>::kWidth;

// Converters for fp32 elements, one number or four at a time.
struct AsItIs {
  inline __attribute__((always_inline)) float operator()(float x) const { return x; }
  inline __attribute__((always_inline)) Quad operator()(Quad x) const { return x; }
};
struct RoundedToTf32 {
  inline __attribute__((always_inline)) float operator()(float x) const { return ToTf32(x); }
  inline __attribute__((always_inline)) Quad operator()(Quad x) const { return ToTf32(x); }
};

// Calls f(typed pointer, converter) for the element type of a matrix.
template <typename T, typename F>
inline __attribute__((always_inline)) void WithStorage(const Matrix& matrix, F f) {
  const void* const data = matrix.data;
  switch (matrix.storage) {
    case Storage::kFp64:
      f(static_cast<const double*>(data), [](double x) { return static_cast<T>(x); });
      break;
    case Storage::kFp32:
      if (matrix.tf32) {
        f(static_cast<const float*>(data), RoundedToTf32());
      } else {
        f(static_cast<const float*>(data), AsItIs());
      }
      break;
    case Storage::kBf16:
      f(static_cast<const uint16_t*>(data), [](uint16_t x) { return static_cast<T>(FromBf16(x)); });
      break;
    case Storage::kFp16:
      f(static_cast<const uint16_t*>(data), [](uint16_t x) { return static_cast<T>(FromFp16(x)); });
      break;
  }
}

// to[j * to_stride + i] = convert(from[i * from_stride + j]) for i, j < 4.
template <typename Converter>
inline __attribute__((always_inline)) void Transpose4(const float* from, int64_t from_stride, float* to,
                                                      int64_t to_stride, Converter convert) {
  const Quad r0 = convert(LoadVector<Quad>(from));
  const Quad r1 = convert(LoadVector<Quad>(from + from_stride));
  const Quad r2 = convert(LoadVector<Quad>(from + 2 * from_stride));
  const Quad r3 = convert(LoadVector<Quad>(from + 3 * from_stride));
  const Quad t0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
  const Quad t1 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
  const Quad t2 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
  const Quad t3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
  StoreVector(__builtin_shufflevector(t0, t1, 0, 1, 4, 5), to);
  StoreVector(__builtin_shufflevector(t0, t1, 2, 3, 6, 7), to + to_stride);
  StoreVector(__builtin_shufflevector(t2, t3, 0, 1, 4, 5), to + 2 * to_stride);
  StoreVector(__builtin_shufflevector(t2, t3, 2, 3, 6, 7), to + 3 * to_stride);
}

// to[j * to_stride + i] = convert(from[i * from_stride + j]), i < rows, j < columns.
template <typename T, typename Source, typename Converter>
inline void TransposeInto(const Source* from, int64_t from_stride, int64_t rows, int64_t columns, T* to,
                          int64_t to_stride, Converter convert) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) to[j * to_stride + i] = convert(from[i * from_stride + j]);
  }
}

template <typename Converter>
inline void TransposeInto(const float* from, int64_t from_stride, int64_t rows, int64_t columns, float* to,
                          int64_t to_stride, Converter convert) {
  const int64_t whole_rows = rows / 4 * 4;
  const int64_t whole_columns = columns / 4 * 4;
  for (int64_t j = 0; j < whole_columns; j += 4) {
    for (int64_t i = 0; i < whole_rows; i += 4) {
      Transpose4(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride, convert);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j) {
      to[j * to_stride + i] = convert(from[i * from_stride + j]);
    }
  }
}

template <typename T>
void Pack(const Matrix& b, int64_t k, int64_t first, int64_t columns, T* panels) {
  WithStorage<T>(b, [&](const auto* data, auto convert) {
    for (int64_t column = 0; column < columns; column += kPanel<T>) {
      T* panel = panels + column * k;
      const int64_t width = columns - column < kPanel<T> ? columns - column : kPanel<T>;
      if (width < kPanel<T>) memset(panel, 0, sizeof(T) * kPanel<T> * k);
      if (b.transposed) {
        TransposeInto(data + (first + column) * b.stride, b.stride, width, k, panel, kPanel<T>, convert);
        continue;
      }
      const auto* from = data + first + column;
      for (int64_t i = 0; i < k; ++i, from += b.stride, panel += kPanel<T>) {
        if (width == kPanel<T>) {
          for (int j = 0; j < kPanel<T>; ++j) panel[j] = convert(from[j]);
        } else {
          for (int64_t j = 0; j < width; ++j) panel[j] = convert(from[j]);
        }
      }
    }
  });
}

// Packs rows [row, row + rows) and columns [depth, depth + count) of op(A). If A is not transposed, row i begins at to
// + i * kDepthStride. If A is transposed, rows form groups of kTileRows; element (i, j) of a group is at j * kTileRows
// + i. In both layouts the source is read in contiguous runs.
template <typename T>
void PackRows(const Matrix& a, int64_t row, int64_t rows, int64_t depth, int64_t count, T* to) {
  WithStorage<T>(a, [&](const auto* data, auto convert) {
    if (!a.transposed) {
      for (int64_t i = 0; i < rows; ++i) {
        const auto* from = data + (row + i) * a.stride + depth;
        for (int64_t j = 0; j < count; ++j) to[i * kDepthStride + j] = convert(from[j]);
      }
      return;
    }
    for (int64_t i = 0; i < rows; i += kTileRows, to += kTileRows * kDepthStride) {
      const int64_t height = rows - i < kTileRows ? rows - i : kTileRows;
      const auto* from = data + depth * a.stride + row + i;
      for (int64_t j = 0; j < count; ++j, from += a.stride) {
        T* target = to + j * kTileRows;
        if (height == kTileRows) {
          for (int r = 0; r < kTileRows; ++r) target[r] = convert(from[r]);
        } else {
          for (int64_t r = 0; r < height; ++r) target[r] = convert(from[r]);
        }
      }
    }
  });
}

// sums[M][kPanel] += A tile * B panel block. If `fresh`, sums starts at zero.
template <typename T, int M, int kRowStep, int kDepthStep>
void Tile(const T* a, const T* b, int64_t depth, bool fresh, T* sums) {
  using V = typename Register<T>::Type;
  constexpr int kWidth = Register<T>::kWidth;
  V sum[M][kTileVectors];
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kTileVectors; ++v) {
      sum[i][v] = fresh ? V{} : LoadVector<V>(sums + i * kPanel<T> + v * kWidth);
    }
  }
  for (int64_t j = 0; j < depth; ++j) {
    V right[kTileVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kTileVectors; ++v) right[v] = LoadVector<V>(b + v * kWidth);
#pragma GCC unroll 16
    for (int i = 0; i < M; ++i) {
      const V left = V{} + a[i * kRowStep];
#pragma GCC unroll 2
      for (int v = 0; v < kTileVectors; ++v) sum[i][v] = MultiplyAdd(left, right[v], sum[i][v]);
    }
    a += kDepthStep;
    b += kPanel<T>;
  }
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kTileVectors; ++v) StoreVector(sum[i][v], sums + i * kPanel<T> + v * kWidth);
  }
}

template <typename T, int kRowStep, int kDepthStep, int M = kTileRows>
inline void TileOfHeight(int64_t height, const T* a, const T* b, int64_t depth, bool fresh, T* sums) {
  if (height == M) return Tile<T, M, kRowStep, kDepthStep>(a, b, depth, fresh, sums);
  if constexpr (M > 1) TileOfHeight<T, kRowStep, kDepthStep, M - 1>(height, a, b, depth, fresh, sums);
}

// c = (old) + (sums + bias) for one row.
template <typename T, typename C, typename Load, typename Save>
inline __attribute__((always_inline)) void FinishRow(const T* sums, const T* bias, bool accumulate, int64_t columns,
                                                     C* c, Load load, Save save) {
  if (accumulate) {
    for (int64_t j = 0; j < columns; ++j) c[j] = save(load(c[j]) + (bias ? sums[j] + bias[j] : sums[j]));
  } else {
    for (int64_t j = 0; j < columns; ++j) c[j] = save(bias ? sums[j] + bias[j] : sums[j]);
  }
}

template <typename T>
void Finish(const Product<T>& product, int64_t row, int64_t height, int64_t column, int64_t columns, const T* sums) {
  const T* bias = product.bias ? product.bias + column : nullptr;
  for (int64_t i = 0; i < height; ++i, sums += kPanel<T>) {
    const int64_t offset = (row + i) * product.c_stride + column;
    const auto finish = [&](auto* c, auto load, auto save) {
      if (columns == kPanel<T>) {
        FinishRow(sums, bias, product.accumulate, kPanel<T>, c + offset, load, save);
      } else {
        FinishRow(sums, bias, product.accumulate, columns, c + offset, load, save);
      }
    };
    switch (product.c_storage) {
      case Storage::kFp64:
        finish(
            static_cast<double*>(product.c), [](double x) { return static_cast<T>(x); },
            [](T x) -> double { return x; });
        break;
      case Storage::kFp32:
        finish(
            static_cast<float*>(product.c), [](float x) { return static_cast<T>(x); },
            [](T x) { return static_cast<float>(x); });
        break;
      case Storage::kBf16:
        finish(
            static_cast<uint16_t*>(product.c), [](uint16_t x) { return static_cast<T>(FromBf16(x)); },
            [](T x) { return ToBf16(x); });
        break;
      case Storage::kFp16:
        finish(
            static_cast<uint16_t*>(product.c), [](uint16_t x) { return static_cast<T>(FromFp16(x)); },
            [](T x) { return ToFp16(x); });
        break;
    }
  }
}

template <typename T>
void Multiply(const Product<T>& product, T* scratch) {
  T* packed = scratch;
  T* partial = scratch + kRowBlock * kDepthStride;
  alignas(64) T tile[kTileRows * kPanel<T>];
  const int64_t tiles = (product.rows + kTileRows - 1) / kTileRows;
  int64_t depth = 0;
  do {
    const int64_t count = product.k - depth < kDepthBlock ? product.k - depth : kDepthBlock;
    const bool first = depth == 0;
    const bool last = depth + count == product.k;
    PackRows(product.a, product.first_row, product.rows, depth, count, packed);
    for (int64_t column = 0, panel = 0; column < product.columns; column += kPanel<T>, ++panel) {
      const T* b = product.panels + panel * product.panel_stride + depth * kPanel<T>;
      const int64_t width = product.columns - column < kPanel<T> ? product.columns - column : kPanel<T>;
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t row = t * kTileRows;
        const int64_t height = product.rows - row < kTileRows ? product.rows - row : kTileRows;
        T* sums = first && last ? tile : partial + (panel * tiles + t) * (kTileRows * kPanel<T>);
        const T* a = packed + row * kDepthStride;
        if (product.a.transposed) {
          TileOfHeight<T, 1, kTileRows>(height, a, b, count, first, sums);
        } else {
          TileOfHeight<T, kDepthStride, 1>(height, a, b, count, first, sums);
        }
        if (last) Finish(product, row, height, column, width, sums);
      }
    }
    depth += count;
  } while (depth < product.k);
}

}  // namespace
}  // namespace weft::exec::cpu

#endif  // WEFT_EXECUTOR_BACKENDS_CPU_CPU_LOOPS_GEMM_H_
