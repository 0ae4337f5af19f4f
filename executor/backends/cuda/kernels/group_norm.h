// GROUP_NORM and the gradient of its input. The gradients of its weights are column sums (column_sums.h).
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_GROUP_NORM_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_GROUP_NORM_H_

#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// Each sample has `rows` rows of `columns` columns. Groups are equal runs of columns.
struct GroupNormShape {
  int64_t samples = 0, rows = 0, columns = 0, groups = 0;
  bool in_double = false, accumulate = false;
};

struct GroupNormForward {
  GroupNormShape shape;
  double epsilon = 0;
  Array x, gamma, beta;
  Array y, mean, rstd;
};
Outcome Launch(const GroupNormForward& args, void* stream);

struct GroupNormInput {
  GroupNormShape shape;
  Array dy, x, gamma, mean, rstd;
  Array dx;
};
Outcome Launch(const GroupNormInput& args, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_GROUP_NORM_H_
