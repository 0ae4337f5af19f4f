// Moves the gradient of a bias behind the products that read the same rows.
//
// The compiler puts the bias gradient in front of these products, because weft's own executor computes it together with
// the rows (proto/util/step_runs.h). Other frameworks compute it last. PyTorch's formula of a linear layer has the
// gradients of the input, the weight and the bias in this order. Megatron-LM starts the collective of the input's
// gradient between the first and the second, so that the following steps run beside it
// (megatron/core/tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication.backward).
#ifndef WEFT_SIMULATOR_RUNTIME_BIAS_SUMS_H_
#define WEFT_SIMULATOR_RUNTIME_BIAS_SUMS_H_

#include "proto/program.pb.h"

namespace weft::sim {

// True if the program has bias gradients.
bool HasBiasSums(const Program& program);

// Moves each BIAS_GRADIENT behind the last product that reads the same rows. It does not pass a step that waits for it,
// touches its output or overwrites the rows. For costing only.
void SumBiasesLast(Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_BIAS_SUMS_H_
