// ADAMW, SGD_STEP, UPDATE_LOSS_SCALE.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_OPTIMIZER_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_OPTIMIZER_H_

#include "executor/backends/cuda/kernels/tensor_table.h"
#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// What device memory says of loss scaling (rule P11); either may be null.
struct LossScaling {
  // [2]: norm[1] is the factor of gradients.
  const double* norm = nullptr;
  // [3]: if given and the factor is 0 the state stays; scale[2] steps were skipped so far.
  const double* scale = nullptr;
};

// Of `param` and moments, where they are Type::kBf16 or kFp16 (docs/kernels.md, "Stochastic rounding").
struct StochasticRounding {
  bool given = false;
  uint32_t key_low = 0, key_high = 0;
  uint32_t step = 0;
  // In place of key_high, for each of the moments.
  uint32_t moment_key_high[2] = {};
};

// State is read from `from` and written to `to`, which may be the same; `param`, if given, gets the weights rounded.
struct TensorUpdate {
  int64_t elements = 0;
  Array gradient;
  // ADAMW: weights and both moments. SGD_STEP: weights and, if there is one, momentum.
  Array from[3];
  Array to[3];
  Array param;
  double weight_decay = 0;
  // With stochastic rounding: whose numbers, and which of them element 0 has.
  uint32_t rounding_tensor = 0;
  int64_t first_element = 0;
};

// Of one tensor, or of all of a table, whose arrays are there and of types as here.
struct AdamWUpdate : TensorUpdate {
  TensorTable<TensorUpdate> table;
  bool in_double = false;
  LossScaling scaling;
  StochasticRounding rounding;
  double learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  // Number of the optimizer step from 1, those that were skipped among them.
  double step = 1;
};
Outcome Launch(const AdamWUpdate& args, void* stream);

struct SgdUpdate : TensorUpdate {
  TensorTable<TensorUpdate> table;
  bool in_double = false;
  LossScaling scaling;
  StochasticRounding rounding;
  double learning_rate = 0, momentum = 0;
};
Outcome Launch(const SgdUpdate& args, void* stream);

// The scale after a step whose norm this is: from[3] to to[3], which may be the same.
struct LossScaleUpdate {
  const double* norm = nullptr;
  const double* from = nullptr;
  double growth_interval = 0;
  double* to = nullptr;
};
Outcome Launch(const LossScaleUpdate& args, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_OPTIMIZER_H_
