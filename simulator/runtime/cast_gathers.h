// Activations that are cast to 8 bits before the ranks of a layer gather them: fewer bytes are gathered, and each rank
// casts its own part. Stated as a form of kernel GROUP_ALL_GATHER, `bytes` of which is what is moved relative to the
// program's.
// Sources: Transformer Engine, pytorch/module/layernorm_linear.py (with_quantized_all_gather), and user buffers in 8
// bits; torchao, float8/float8_tensor_parallel.py (Float8ColwiseParallel).
#ifndef WEFT_SIMULATOR_RUNTIME_CAST_GATHERS_H_
#define WEFT_SIMULATOR_RUNTIME_CAST_GATHERS_H_

#include <set>
#include <tuple>

#include "proto/program.pb.h"
#include "proto/runtime.pb.h"

namespace weft::sim {

// On devices of this compute capability; 1 if the runtime gathers what the program does.
double GatheredBytes(const Runtime& runtime, int capability);

// Whether products at the loss are in 8 bits like all others: the runtime states no time of their own for them.
bool CastsAtLoss(const Runtime& runtime, int capability);

// Of gathers between ranks of a layer that products read: what the embedding's backward gathers is no factor of a
// product in 8 bits, and stays as it is, and so does what products at the loss gather unless `casts_at_loss`. The
// result is for costing alone.
void ScaleGathers(double bytes, bool casts_at_loss, Program* program);

// Segment, step and factor (0 or 1) of products that read what such a gather has put together.
std::set<std::tuple<int, int, int>> GatheredFactors(const Program& program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_CAST_GATHERS_H_
