// Tells the transport, before the first step on an asynchronous device, all edges between ranks that the rank's program
// uses. The transport then connects and allocates, so that no step has to. Internal to the interpreter.
#ifndef WEFT_EXECUTOR_PROGRAM_PROGRAM_EDGES_H_
#define WEFT_EXECUTOR_PROGRAM_PROGRAM_EDGES_H_

#include "absl/status/status.h"
#include "executor/interface/transport.h"
#include "executor/program/prepared_program.h"

namespace weft::exec {

// Allocates the scratch of collectives, and passes all transfers to the endpoint, in list order. All ranks must call
// it.
absl::Status ConnectEdges(const PreparedProgram& program, Endpoint& endpoint);

// Describes the transfer of the action, which must be a SEND or RECV. Does not set the state of `*transfer`.
void DescribeTransfer(const PreparedProgram& program, const PreparedAction& action, Transfer* transfer);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_PROGRAM_EDGES_H_
