// Moves what only the optimizer needs to host memory.
#ifndef WEFT_COMPILER_REWRITE_HOST_STATES_H_
#define WEFT_COMPILER_REWRITE_HOST_STATES_H_

#include "proto/program.pb.h"

namespace weft {

// MASTER and moments of every template get offsets in the host arena; a PARAM that the optimizer updates itself (it has
// no MASTER) gets one there, in the order of the buffers, behind all others. What they leave free in the device arena
// is closed, in the evaluation program too. Actions still name the buffers as before.
void MoveStatesToHost(Program* program);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_HOST_STATES_H_
