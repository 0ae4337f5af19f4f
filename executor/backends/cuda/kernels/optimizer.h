// ADAMW, SGD_STEP, UPDATE_LOSS_SCALE.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_OPTIMIZER_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_OPTIMIZER_H_

#include "executor/backends/cuda/kernels/tensor_table.h"
#include "executor/backends/cuda/kernels/types.h"

namespace weft::exec::cuda {

// Loss scaling in device memory (docs/kernels.md). Either pointer may be null.
struct LossScaling {
  // Two numbers; norm[1] is the factor for gradients.
  const double* norm = nullptr;
  // Three numbers: scale[0] is the loss scale, and scale[2] the number of steps skipped so far. If `scale` is given and
  // the factor norm[1] is 0, the state stays unchanged.
  const double* scale = nullptr;
};

// Stochastic rounding of `param` and of moments that are kBf16 or kFp16 (docs/kernels.md, "Stochastic rounding").
struct StochasticRounding {
  bool given = false;
  uint32_t key_low = 0, key_high = 0;
  uint32_t step = 0;
  // Replaces key_high for each of the moments.
  uint32_t moment_key_high[2] = {};
};

// State is read from `from` and written to `to`, which may be the same. `param`, if given, receives the rounded
// weights.
struct TensorUpdate {
  int64_t elements = 0;
  Array gradient;
  // ADAMW: weights and both moments. SGD_STEP: weights and, if there is one, momentum.
  Array from[3];
  Array to[3];
  Array param;
  double weight_decay = 0;
  // For stochastic rounding: the tensor whose random numbers are used, and the number of element 0 in it.
  uint32_t rounding_tensor = 0;
  int64_t first_element = 0;
};

// Updates one tensor or, if `table` is given, all tensors of the table. They must have the same arrays, of the same
// types, as this struct.
struct AdamWUpdate : TensorUpdate {
  TensorTable<TensorUpdate> table;
  bool in_double = false;
  LossScaling scaling;
  StochasticRounding rounding;
  double learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  // Number of the optimizer step, from 1, including skipped steps.
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

// Updates the loss scale after a step with this norm. Reads the three numbers at `from` (see LossScaling::scale) and
// writes the new ones to `to`, which may be the same.
struct LossScaleUpdate {
  const double* norm = nullptr;
  const double* from = nullptr;
  double growth_interval = 0;
  double* to = nullptr;
};
Outcome Launch(const LossScaleUpdate& args, void* stream);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_OPTIMIZER_H_
