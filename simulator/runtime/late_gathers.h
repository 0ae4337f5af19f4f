// A program as run by frameworks that prefetch weights only within a recomputed block.
//
// A backward of weft gathers the weights of the next recomputation during the step before it, whatever that step is.
// AxoNN starts its queue of gathers when the recomputation of a block begins, so the first gather of each block has
// nothing to hide under. Here a gather waits for the last backward kernel between the gather and the first step that
// reads it. The result is for costing only. Source: axonn/intra_layer/__init__.py of AxoNN 0.2,
// overlap_all_gathers_for_checkpointed_forward.
#ifndef WEFT_SIMULATOR_RUNTIME_LATE_GATHERS_H_
#define WEFT_SIMULATOR_RUNTIME_LATE_GATHERS_H_

#include "proto/program.pb.h"

namespace weft::sim {

void DelayGathers(Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_LATE_GATHERS_H_
