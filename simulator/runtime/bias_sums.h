// The gradient of a bias behind the products that read what it sums up.
//
// The compiler puts it in front of them, where weft's own executor makes it with the rows (proto/util/step_runs.h).
// Others sum up last: PyTorch's formula of a linear layer orders the gradients of its input, its weight and its bias
// so, and Megatron-LM starts the collective of the input's gradient between the first and the second, so that what
// follows runs beside it (megatron/core/tensor_parallel/layers.py,
// LinearWithGradAccumulationAndAsyncCommunication.backward).
#ifndef WEFT_SIMULATOR_RUNTIME_BIAS_SUMS_H_
#define WEFT_SIMULATOR_RUNTIME_BIAS_SUMS_H_

#include "proto/program.pb.h"

namespace weft::sim {

// Whether the program has such gradients.
bool HasBiasSums(const Program& program);

// Moves each BIAS_GRADIENT behind the last product that reads the same rows, unless a step in between waits for it,
// touches what it makes or overwrites the rows. For costing alone.
void SumBiasesLast(Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_BIAS_SUMS_H_
