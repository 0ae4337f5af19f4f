// Columns side by side, and positions of images that become four.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMNS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMNS_H_

#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// y[:, to : to + columns] = x[:, from : from + columns] of matrices with x_columns and y_columns columns, where the
// columns of x are those of blocks of `rows` rows side by side: x is [groups * rows, x_columns].
struct CopyColumns {
  Array x, y;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t x_columns = 0, y_columns = 0;
  int64_t from = 0, to = 0;
  bool in_double = false;
};
Outcome Launch(const CopyColumns& copy, void* stream);

// Each position of x [samples * height * width, columns] becomes four of y; with `sum` each of y is the sum of the four
// of x, upper left, upper right, lower left, lower right, and height and width are those of y.
struct Upsample {
  Array x, y;
  // Of the smaller one.
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t height = 0, width = 0;
  bool sum = false;
  bool in_double = false;
};
Outcome Launch(const Upsample& upsample, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMNS_H_
