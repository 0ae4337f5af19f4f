// SQUARED_NORM and NORM_TOTAL: norms of gradients.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_GRADIENT_NORM_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_GRADIENT_NORM_H_

#include "executor/backends/cuda/kernels/tensor_table.h"
#include "executor/backends/cuda/kernels/types.h"
#include "executor/numerics/exact192_limbs.h"

namespace weft::exec::cuda {

// A tensor's squares are summed in pieces: one for every kMinNormPiece elements or part of them, but at most
// kMaxNormPieces. Smaller pieces do not pay. The number of pieces depends only on the number of elements.
inline constexpr int64_t kMaxNormPieces = 1024;
inline constexpr int64_t kMinNormPiece = 8192;
inline int64_t NormPiecesOf(int64_t elements) {
  const int64_t pieces = (elements + kMinNormPiece - 1) / kMinNormPiece;
  return pieces < 1 ? 1 : pieces < kMaxNormPieces ? pieces : kMaxNormPieces;
}
// Scratch memory on the device that a norm needs.
inline constexpr int64_t kNormScratchBytes = kMaxNormPieces * int64_t{sizeof(Exact192)};

// *norm = sum of x * x in double, in an order fixed by the number of elements. If `exact_norm` is given instead, it
// receives the exact sum of the squares, after each is rounded to double and then to the grid of Exact192.
struct SumOfSquares {
  Array x;
  int64_t elements = 0;
  void* scratch = nullptr;
  double* norm = nullptr;
  Exact192* exact_norm = nullptr;
};
Outcome Launch(const SumOfSquares& args, void* stream);

// Does the work of SumOfSquares for all tensors of a table. The table's tiles are the pieces. One launch reads the
// gradients, and a second adds the pieces' sums. Each `norm` is a double, or with `exact` an Exact192.
struct SquaredTensor {
  Array x;
  int64_t elements = 0;
  void* norm = nullptr;
};
struct SumsOfSquares {
  TensorTable<SquaredTensor> table;
  // Type of all x, or kNone if they differ.
  Type type = Type::kNone;
  bool exact = false;
  // Scratch memory for one sum for each piece of all tensors.
  void* scratch = nullptr;
};
Outcome Launch(const SumsOfSquares& args, void* stream);

struct NormOfAll {
  // Exactly one of the two is given.
  const double* norms = nullptr;
  const Exact192* exact_norms = nullptr;
  int64_t count = 0;
  // The loss scale is scale[0] if `scale` is given, else `fixed_scale`.
  const double* scale = nullptr;
  double fixed_scale = 1;
  // 0 = no clipping.
  double clip_norm = 0;
  double* norm = nullptr;
};
Outcome Launch(const NormOfAll& args, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_GRADIENT_NORM_H_
