// SQUARED_NORM and NORM_TOTAL: norms of gradients.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_GRADIENT_NORM_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_GRADIENT_NORM_H_

#include "executor/backends/cuda/kernels/types.h"
#include "executor/exact192_limbs.h"

namespace weft::cuda {

// Pieces of a tensor, at most, whose squares are summed apart; how many there are depends on its elements alone.
inline constexpr int64_t kMostNormPieces = 1024;
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

}  // namespace weft::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_GRADIENT_NORM_H_
