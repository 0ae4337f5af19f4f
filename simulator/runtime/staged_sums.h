// A program whose sums of gradients go through host memory.
//
// Before each sum of gradients over replicas an action copies them to the host. The process that runs the rank's loop
// waits for the copy, so what the rank computes next waits too. Behind the sum another action copies them back; what
// waited for the sum waits for that.
#ifndef WEFT_SIMULATOR_RUNTIME_STAGED_SUMS_H_
#define WEFT_SIMULATOR_RUNTIME_STAGED_SUMS_H_

#include "proto/program.pb.h"

namespace weft::sim {

// Of each template's body. For costing alone.
void StageGradientSums(Program* program);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_STAGED_SUMS_H_
