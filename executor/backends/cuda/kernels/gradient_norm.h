// SQUARED_NORM and NORM_TOTAL: norms of gradients.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_GRADIENT_NORM_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_GRADIENT_NORM_H_

#include "executor/backends/cuda/kernels/tensor_table.h"
#include "executor/backends/cuda/kernels/types.h"
#include "executor/numerics/exact192_limbs.h"

namespace weft::exec::cuda {

// Pieces of a tensor, at most, whose squares are summed apart; how many there are depends on its elements alone. Below
// so many elements another one does not pay.
inline constexpr int64_t kMostNormPieces = 1024;
inline constexpr int64_t kLeastNormPiece = 8192;
inline int64_t NormPiecesOf(int64_t elements) {
  const int64_t pieces = (elements + kLeastNormPiece - 1) / kLeastNormPiece;
  return pieces < 1 ? 1 : pieces < kMostNormPieces ? pieces : kMostNormPieces;
}
// Scratch memory of the device that a norm takes.
inline constexpr int64_t kNormScratchBytes = kMostNormPieces * int64_t{sizeof(Exact192)};

// *norm = sum of x * x in double, in an order that the number of elements fixes; or, if `exact_norm` is given instead,
// exactly, of squares that were rounded to double and then to the grid.
struct SumOfSquares {
  Array x;
  int64_t elements = 0;
  void* scratch = nullptr;
  double* norm = nullptr;
  Exact192* exact_norm = nullptr;
};
Outcome Launch(const SumOfSquares& args, void* stream);

// The same of all tensors of a table, whose tiles are their pieces: one pass over the gradients, then one over the
// sums of pieces. `norm` of each is a double, or with `exact` an Exact192.
struct SquaredTensor {
  Array x;
  int64_t elements = 0;
  void* norm = nullptr;
};
struct SumsOfSquares {
  TensorTable<SquaredTensor> table;
  // Of all x, or kNone if they differ.
  Type type = Type::kNone;
  bool exact = false;
  // A sum for each piece of all tensors.
  void* scratch = nullptr;
};
Outcome Launch(const SumsOfSquares& args, void* stream);

struct NormOfAll {
  // One of the two.
  const double* norms = nullptr;
  const Exact192* exact_norms = nullptr;
  int64_t count = 0;
  // scale[0] if it is given, else the constant.
  const double* scale = nullptr;
  double fixed_scale = 1;
  // 0 = no clipping.
  double clip_norm = 0;
  double* norm = nullptr;
};
Outcome Launch(const NormOfAll& args, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_GRADIENT_NORM_H_
