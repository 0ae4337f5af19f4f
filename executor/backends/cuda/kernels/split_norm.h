// Norms of rows whose columns are split over ranks: statistics of one part, statistics of the whole from all parts, and
// kernels that use them. If `mean` (and `beta`) is null, the norm is the root mean square norm.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_SPLIT_NORM_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_SPLIT_NORM_H_

#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// Computes for each row of a part the mean and the sum of squared differences from it, [rows, 2]. With squares_only it
// computes the sum of squares, [rows].
struct NormPartial {
  Array x, partial;
  int64_t rows = 0;
  int64_t columns = 0;
  bool squares_only = false;
  bool in_double = false;
};
Outcome Launch(const NormPartial& norm, void* stream);

// Combines the results of NormPartial of all parts, [parts * rows, 2], into `mean` and `rstd` of whole rows. If `mean`
// is null, the results are sums of squares, [parts * rows].
struct NormCombine {
  Array partials, mean, rstd;
  int64_t rows = 0;
  int64_t parts = 0;
  int64_t whole_columns = 0;
  double epsilon = 0;
  bool in_double = false;
};
Outcome Launch(const NormCombine& norm, void* stream);

struct NormApply {
  Array x, gamma, beta, mean, rstd, y;
  int64_t rows = 0;
  int64_t columns = 0;
  bool in_double = false;
};
Outcome Launch(const NormApply& norm, void* stream);

// Computes for each row the sums of dy gamma and of dy gamma (x - mean) rstd, [rows, 2]. If `mean` is null, it computes
// only the second sum, [rows].
struct NormBackwardPartial {
  Array dy, x, gamma, mean, rstd, sums;
  int64_t rows = 0;
  int64_t columns = 0;
  bool in_double = false;
};
Outcome Launch(const NormBackwardPartial& norm, void* stream);

struct NormBackwardApply {
  Array dy, x, gamma, mean, rstd, sums, dx;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t whole_columns = 0;
  bool accumulate = false;
  bool in_double = false;
};
Outcome Launch(const NormBackwardApply& norm, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_SPLIT_NORM_H_
