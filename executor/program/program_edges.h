// What a transport must know of a rank's program before the first step on an asynchronous device: every edge that
// messages go over, so that it connects and allocates then. Internal to the interpreter.
#ifndef WEFT_EXECUTOR_PROGRAM_PROGRAM_EDGES_H_
#define WEFT_EXECUTOR_PROGRAM_PROGRAM_EDGES_H_

#include "absl/status/status.h"
#include "executor/interface/transport.h"
#include "executor/program/prepared_program.h"

namespace weft::exec {

// Allocates what collectives need, and tells the endpoint of all transfers, in list order. All ranks call it.
absl::Status ConnectEdges(const PreparedProgram& program, Endpoint& endpoint);

// A transfer of the action, which is a SEND or RECV, without its state.
void DescribeTransfer(const PreparedProgram& program, const PreparedAction& action, Transfer* transfer);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_PROGRAM_EDGES_H_
