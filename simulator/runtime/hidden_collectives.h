// A program as frameworks run it that sum gradients under the backward and gather weights under the forward.
//
// A program of weft sums the gradients of a stage when its last backward has ended, and gathers what an optimizer step
// left in parts before the next one's first forward. Where a runtime hides them, the sum of a bucket becomes a detached
// step of the backward that completes it, behind the last of its steps that writes a gradient of the bucket, and a
// gather becomes a step of the first forward, which only what reads its weights waits for. What waited for the
// collectives waits for those actions. A gather stays where it is if the forward also waits for another stage: there
// the pipeline's filling hides it.
//
// The result is for costing alone: it is not proven again, and never run.
// Sources: Li et al., "PyTorch Distributed", arXiv:2006.15704, sec. 3.2.3 (buckets under the backward); Megatron-LM
// --overlap-grad-reduce and --overlap-param-gather (docs of Megatron-Core's DistributedDataParallel).
#ifndef WEFT_SIMULATOR_RUNTIME_HIDDEN_COLLECTIVES_H_
#define WEFT_SIMULATOR_RUNTIME_HIDDEN_COLLECTIVES_H_

#include "proto/program.pb.h"

namespace weft::sim {

void HideGradientSums(Program* program);
void HideWeightGathers(Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_HIDDEN_COLLECTIVES_H_
