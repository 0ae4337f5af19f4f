// CROSS_ENTROPY, of columns that are split over ranks, and backward.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_CROSS_ENTROPY_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_CROSS_ENTROPY_H_

#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// Logits of `rows` rows, of whose `columns` columns the first `vocabulary` count, from 0 to all. The first column is
// number `column_shift` of the whole vocabulary. Rows with a target below 0 do not count.
struct Logits {
  Array values;
  int64_t rows = 0, columns = 0, vocabulary = 0, column_shift = 0;
  const int32_t* targets = nullptr;
  bool in_double = false;
};

// lse [rows]: log-sum-exp of the columns that count, in one pass over the logits. *loss = weight * sum over rows that
// count of lse - logit[target]; NaN if a target is not below the vocabulary.
struct LogitsLoss {
  Logits logits;
  double weight = 1;
  Array lse;
  double* loss = nullptr;
  // Scratch of one number per row: what it loses.
  double* of_rows = nullptr;
};
Outcome Launch(const LogitsLoss& args, void* stream);

// pairs [rows, 2]: log-sum-exp, and the target's logit, 0 if it is not among these columns.
struct LogitsPartial {
  Logits logits;
  Array pairs;
};
Outcome Launch(const LogitsPartial& args, void* stream);

// Of the `parts` pairs of every row [parts, rows, 2]: lse and loss of all columns.
struct PartialsLoss {
  Array pairs;
  int64_t rows = 0, parts = 0;
  const int32_t* targets = nullptr;
  bool in_double = false;
  double weight = 1;
  Array lse;
  double* loss = nullptr;
  // As of LogitsLoss.
  double* of_rows = nullptr;
};
Outcome Launch(const PartialsLoss& args, void* stream);

// dlogits (may be the logits) = weight * *scale * (softmax - onehot); `scale` may be null: 1.
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
