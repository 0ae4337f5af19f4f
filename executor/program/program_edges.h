// Gives a transport every edge that the messages of a rank's program use, before the first step on an asynchronous
// device. The transport connects and allocates then. Internal to the interpreter.
#ifndef WEFT_EXECUTOR_PROGRAM_PROGRAM_EDGES_H_
#define WEFT_EXECUTOR_PROGRAM_PROGRAM_EDGES_H_

#include "absl/status/status.h"
#include "executor/interface/transport.h"
#include "executor/program/prepared_program.h"

namespace weft::exec {

// Allocates what collectives need, and passes all transfers to the endpoint, in list order. All ranks call it.
absl::Status ConnectEdges(const PreparedProgram& program, Endpoint& endpoint);

// Describes the transfer of the action, which is a SEND or RECV, without its state.
void DescribeTransfer(const PreparedProgram& program, const PreparedAction& action, Transfer* transfer);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_PROGRAM_EDGES_H_
