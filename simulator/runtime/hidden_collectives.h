// A program as run by frameworks that sum gradients under the backward and gather weights under the forward.
//
// A program of weft sums the gradients of a stage after the stage's last backward. It gathers the parts that an
// optimizer step left before the first forward of the next iteration. A runtime may hide both. The sum of a bucket then
// becomes a detached step of the backward that completes the bucket, behind the last step that writes a gradient of the
// bucket. A gather becomes a step of the first forward, and only steps that read its weights wait for it. Actions that
// waited for the collectives wait for the backward or the forward. A gather stays where it is if the forward also waits
// for another stage: there the warm-up of the pipeline hides the gather.
//
// The result is for costing only: it is not proven again and never run. Sources: Li et al., "PyTorch Distributed",
// arXiv:2006.15704, sec. 3.2.3 (buckets under the backward); Megatron-LM --overlap-grad-reduce and
// --overlap-param-gather (docs of Megatron-Core's DistributedDataParallel).
#ifndef WEFT_SIMULATOR_RUNTIME_HIDDEN_COLLECTIVES_H_
#define WEFT_SIMULATOR_RUNTIME_HIDDEN_COLLECTIVES_H_

#include "proto/program.pb.h"

namespace weft::sim {

void HideGradientSums(Program* program);
void HideWeightGathers(Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_HIDDEN_COLLECTIVES_H_
