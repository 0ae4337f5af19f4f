// Concatenation and slices of columns, and upsampling of images by two in each direction.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMNS_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMNS_H_

#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// y[:, to : to + columns] = x[:, from : from + columns], for matrices with x_columns and y_columns columns. x is
// [groups * rows, x_columns]; its blocks of `rows` rows count as lying side by side.
struct CopyColumns {
  Array x, y;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t x_columns = 0, y_columns = 0;
  int64_t from = 0, to = 0;
  bool in_double = false;
};
Outcome Launch(const CopyColumns& copy, void* stream);

// Each position of x [samples * height * width, columns] becomes four positions of y. With `sum`, each position of y is
// the sum of four positions of x (upper left, upper right, lower left, lower right), and height and width are those of
// y.
struct Upsample {
  Array x, y;
  // Number of rows of the smaller array.
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t height = 0, width = 0;
  bool sum = false;
  bool in_double = false;
};
Outcome Launch(const Upsample& upsample, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_COLUMNS_H_
