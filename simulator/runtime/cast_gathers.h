// Activations that are cast to 8 bits before the ranks of a layer gather them: the gathers move fewer bytes, and each
// rank casts its own part. A runtime states this as a form of kernel GROUP_ALL_GATHER. The `bytes` of the form are the
// moved bytes relative to the program's. Sources: Transformer Engine, pytorch/module/layernorm_linear.py
// (with_quantized_all_gather), and user buffers in 8 bits; torchao, float8/float8_tensor_parallel.py
// (Float8ColwiseParallel).
#ifndef WEFT_SIMULATOR_RUNTIME_CAST_GATHERS_H_
#define WEFT_SIMULATOR_RUNTIME_CAST_GATHERS_H_

#include <set>
#include <tuple>

#include "proto/program.pb.h"
#include "proto/runtime.pb.h"

namespace weft::sim {

// Returns the bytes that a gather moves on devices of this compute capability, relative to the program's bytes; 1 if
// the runtime changes nothing.
double GatheredBytes(const Runtime& runtime, int capability);

// True if the products of LossProducts are in 8 bits like all others: if the runtime states no separate time for them.
bool CastsAtLoss(const Runtime& runtime, int capability);

// Scales each gather between the ranks of a layer whose result some product reads. The result of the gather in the
// embedding's backward is no factor of a product in 8 bits, so that gather is not scaled. If only products at the loss
// read a gather's result, the gather is scaled only with `casts_at_loss`. For costing only.
void ScaleGathers(double bytes, bool casts_at_loss, Program* program);

// Returns (segment, step of a product, 0 or 1 for one of its factors) for each factor that is the result of a gather
// between the ranks of a layer.
std::set<std::tuple<int, int, int>> GatheredFactors(const Program& program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_CAST_GATHERS_H_
