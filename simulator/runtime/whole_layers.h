// A program as run by frameworks that compute all of a recomputed layer again.
//
// A backward of weft recomputes only what it reads. The last product of a layer, the sum behind it and the residual
// addition are read only by the next layer, whose input is kept. torch.utils.checkpoint runs the layer's forward to its
// end, and so do the checkpoint functions of Megatron-LM and DeepSpeed. (Checkpoints that are not reentrant stop early
// since PyTorch 2.1.) With tensor parallelism, this means two sums per layer instead of one, and a product that is a
// third of a GPT's. Here the other steps of such a layer follow the recomputed steps. The result is for costing only.
#ifndef WEFT_SIMULATOR_RUNTIME_WHOLE_LAYERS_H_
#define WEFT_SIMULATOR_RUNTIME_WHOLE_LAYERS_H_

#include "proto/program.pb.h"

namespace weft::sim {

// Completes layers whose first steps, without a gap and not counting gathers of weights, are computed again. A layer is
// the steps of a forward whose names are equal up to the first number, e.g. "h.3".
void RecomputeWholeLayers(Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_WHOLE_LAYERS_H_
