// Divides matrices into groups of eight elements. One thread handles each group, and the order does not matter.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_PIECES_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_PIECES_H_

#include "executor/backends/cuda/kernels/eights.h"

namespace weft::exec::cuda {

inline constexpr int kPieceThreads = 256;

// Elements [first, first + 8) of a row. `count` of them are in the matrix; none if count <= 0.
struct Piece {
  int64_t row, first, count;
};

struct Pieces {
  int64_t rows = 0, columns = 0, of_row = 0;

  static Pieces Of(int64_t rows, int64_t columns) { return {rows, columns, CeilDivide(columns, kBlock)}; }
  // Returns the number of blocks if each thread takes `each` pieces.
  int64_t Blocks(int each) const { return CeilDivide(rows * of_row, int64_t{kPieceThreads} * each); }

  WEFT_DEVICE bool Aligned() const { return columns % kBlock == 0; }
  // Returns piece `which` of the thread's `each` pieces. Neighboring threads have neighboring pieces.
  template <typename Thread>
  WEFT_DEVICE Piece At(const Thread& thread, int which, int each) const {
    const int64_t item = (thread.block() * each + which) * thread.count() + thread.index();
    if (item >= rows * of_row) return {0, 0, 0};
    const int64_t row = Divide(item, of_row), first = (item - row * of_row) * kBlock;
    return {row, first, columns - first};
  }
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_PIECES_H_
