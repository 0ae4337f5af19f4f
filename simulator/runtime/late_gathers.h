// A program as frameworks run it that prefetch weights within a recomputed block only.
//
// A backward of weft asks for the weights of the next recomputation during the step before it, whatever that is. AxoNN
// starts its queue of gathers when the recomputation of a block begins: the first gather of each block has nothing to
// hide under. Here a gather waits for the last backward kernel that stands between it and the first step that reads it.
// The result is for costing alone.
// Source: axonn/intra_layer/__init__.py of AxoNN 0.2, overlap_all_gathers_for_checkpointed_forward.
#ifndef WEFT_SIMULATOR_RUNTIME_LATE_GATHERS_H_
#define WEFT_SIMULATOR_RUNTIME_LATE_GATHERS_H_

#include "proto/program.pb.h"

namespace weft::sim {

void DelayGathers(Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_LATE_GATHERS_H_
