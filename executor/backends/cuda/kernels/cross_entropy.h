// CROSS_ENTROPY of whole rows and of columns split over ranks, and its backward kernel.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_CROSS_ENTROPY_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_CROSS_ENTROPY_H_

#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// Logits of `rows` rows. The first `vocabulary` of `columns` columns count; `vocabulary` is from 0 to `columns`. The
// first column has number `column_shift` in the whole vocabulary. Rows with a target below 0 do not count.
struct Logits {
  Array values;
  int64_t rows = 0, columns = 0, vocabulary = 0, column_shift = 0;
  const int32_t* targets = nullptr;
  bool in_double = false;
};

// Reads the logits once. lse [rows] is the log-sum-exp of the columns that count. *loss = weight * sum of (lse -
// logit[target]) over the rows that count; it is NaN if a target is not below the vocabulary.
struct LogitsLoss {
  Logits logits;
  double weight = 1;
  Array lse;
  double* loss = nullptr;
  // Scratch for the loss of each row.
  double* of_rows = nullptr;
};
Outcome Launch(const LogitsLoss& args, void* stream);

// pairs [rows, 2]: log-sum-exp, and the logit of the target, which is 0 if the target is not among these columns.
struct LogitsPartial {
  Logits logits;
  Array pairs;
};
Outcome Launch(const LogitsPartial& args, void* stream);

// Computes lse and loss of all columns from `parts` pairs per row, [parts, rows, 2].
struct PartialsLoss {
  Array pairs;
  int64_t rows = 0, parts = 0;
  const int32_t* targets = nullptr;
  bool in_double = false;
  double weight = 1;
  Array lse;
  double* loss = nullptr;
  // Scratch for the loss of each row, as in LogitsLoss.
  double* of_rows = nullptr;
};
Outcome Launch(const PartialsLoss& args, void* stream);

// dlogits (may be the logits) = weight * *scale * (softmax - onehot). A null `scale` means 1.
struct LogitsGradient {
  Logits logits;
  Array lse;
  double weight = 1;
  const double* scale = nullptr;
  Array dlogits;
};
Outcome Launch(const LogitsGradient& args, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_CROSS_ENTROPY_H_
