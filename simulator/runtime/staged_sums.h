// A program whose sums of gradients go through host memory.
//
// Before each sum of gradients over replicas, an action copies the gradients to the host. The process that runs the
// rank's loop waits for the copy, so the next computation of the rank waits too. After the sum, another action copies
// the gradients back. Actions that waited for the sum wait for the copy back.
#ifndef WEFT_SIMULATOR_RUNTIME_STAGED_SUMS_H_
#define WEFT_SIMULATOR_RUNTIME_STAGED_SUMS_H_

#include "proto/program.pb.h"

namespace weft::sim {

// Changes the sums in the body of each template. The result is for costing only.
void StageGradientSums(Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_STAGED_SUMS_H_
