// The transport between ranks that are processes and talk over TCP, without MPI. They meet through the rendezvous store
// (executor/job/store.h).
#ifndef WEFT_EXECUTOR_TRANSPORTS_TCP_H_
#define WEFT_EXECUTOR_TRANSPORTS_TCP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "executor/interface/transport.h"
#include "executor/job/bootstrap.h"

namespace weft::exec {

// Opens the endpoint of one rank; returns when all ranks have called it. `own_process`: the rank is a process that ends
// after its endpoint. The rank whose abort won then keeps its connections until its process has ended. The others wait
// for that, but at most 8 s, so that the process that reports the reason exits first.
absl::StatusOr<std::unique_ptr<Endpoint>> OpenTcpEndpoint(const Rendezvous& rendezvous, bool own_process);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_TCP_H_
