// A program as frameworks run it that compute all of a recomputed layer again.
//
// A backward of weft computes again what it reads; the last product of a layer, the sum behind it and the residual
// addition are read by the next layer only, whose input is kept. torch.utils.checkpoint runs the layer's forward to its
// end, as do the checkpoint functions of Megatron-LM and DeepSpeed (but for checkpoints that are not reentrant, which
// stop early since PyTorch 2.1): with tensor parallelism two sums per layer instead of one, and a product that is a
// third of a GPT's. Here such a layer's other steps follow those that are computed again. The result is for costing
// alone.
#ifndef WEFT_SIMULATOR_RUNTIME_WHOLE_LAYERS_H_
#define WEFT_SIMULATOR_RUNTIME_WHOLE_LAYERS_H_

#include "proto/program.pb.h"

namespace weft::sim {

// Of layers whose first steps are computed again, all but gathers of weights, without a gap. A layer is what steps of a
// forward have in common up to the first number in their names, e.g. "h.3".
void RecomputeWholeLayers(Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_WHOLE_LAYERS_H_
