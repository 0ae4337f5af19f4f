// Moves optimizer states, which only the optimizer needs, to host memory.
#ifndef WEFT_COMPILER_REWRITE_HOST_STATES_H_
#define WEFT_COMPILER_REWRITE_HOST_STATES_H_

#include "proto/program.pb.h"

namespace weft {

// Gives the MASTER and moment buffers of every template offsets in the host arena. A PARAM that has no MASTER, because
// the optimizer updates it directly, gets a MASTER in the host arena; these follow all others, in the order of the
// buffers. The gaps that the moved buffers leave in the device arena are closed, in the evaluation program too. Actions
// refer to the same buffers as before.
void MoveStatesToHost(Program* program);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_HOST_STATES_H_
