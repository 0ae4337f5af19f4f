// DROPOUT, and its variants that write or read a mask.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_DROPOUT_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_DROPOUT_H_

#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// Maps the sequences of a step to global samples of the run, as in StepContext.
struct Samples {
  int64_t first_sample = 0;
  int64_t own_sequences = 0;
  int64_t sample_stride = 0;
};

// Decides which elements a dropout site drops. The probability p of dropping is given by `threshold` and `factor`.
struct DropoutKey {
  uint32_t key_low = 0, key_high = 0;
  uint32_t site = 0;
  // floor(p 2^32)
  uint32_t threshold = 0;
  // 1 / (1 - p)
  double factor = 1;
};

// Elements are numbered as in the whole sample (docs/kernels.md, "Random numbers"): row r of x is row row_shift + r of
// the step's samples. With `heads`, the columns are heads x sequence.
struct Dropout {
  Array x, y;
  // One byte per element, 1 = kept. Null: no mask is written.
  uint8_t* mask = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t sequence = 0;
  int64_t heads = 0;
  // Number of columns of the whole tensor, and number of the first column of x in it. With `heads`, both count heads.
  int64_t whole = 0;
  int64_t column_shift = 0;
  int64_t row_shift = 0;
  Samples samples;
  DropoutKey key;
  bool in_double = false;
};
Outcome Launch(const Dropout& dropout, void* stream);

// y = x * factor where the mask is not 0, else 0.
struct DropoutByMask {
  Array x, y;
  const uint8_t* mask = nullptr;
  int64_t elements = 0;
  double factor = 1;
  bool in_double = false;
};
Outcome Launch(const DropoutByMask& dropout, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_DROPOUT_H_
