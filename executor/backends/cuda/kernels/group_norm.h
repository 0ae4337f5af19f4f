// GROUP_NORM and its backwards.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_GROUP_NORM_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_GROUP_NORM_H_

#include "executor/backends/cuda/kernels/types.h"
#include "executor/device_code.h"

namespace weft::cuda {

// Each sample is `rows` rows of `columns` columns, whose groups are equal runs of columns.
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

struct GroupNormWeight {
  GroupNormShape shape;
  Array dy, x, mean, rstd;
  Array dgamma, dbeta;
  // Device memory, ScratchBytes() of it.
  void* scratch = nullptr;

  // Rows of all samples are summed in so many pieces: 64 rows each at least, 64 pieces at most.
  WEFT_HOST_DEVICE int64_t pieces() const {
    const int64_t wanted = (shape.samples * shape.rows + 63) / 64;
    return wanted < 1 ? 1 : wanted < 64 ? wanted : 64;
  }
  int64_t ScratchBytes() const { return pieces() * shape.columns * 2 * (shape.in_double ? 8 : 4); }
};
Outcome Launch(const GroupNormWeight& args, void* stream);

}  // namespace weft::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_GROUP_NORM_H_
