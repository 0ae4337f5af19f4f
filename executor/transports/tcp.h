// Ranks are processes that talk over TCP: no MPI is needed. They meet through the rendezvous store
// (executor/job/store.h).
#ifndef WEFT_EXECUTOR_TRANSPORTS_TCP_H_
#define WEFT_EXECUTOR_TRANSPORTS_TCP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "executor/interface/transport.h"
#include "executor/job/bootstrap.h"

namespace weft::exec {

// The endpoint of one rank; returns when all ranks have called it. `own_process`: the rank is a process that ends after
// its endpoint. The rank whose abort won then keeps its connections until the process has ended, and the others wait
// for that a moment, so that the one that says why goes first.
absl::StatusOr<std::unique_ptr<Endpoint>> OpenTcpEndpoint(const Rendezvous& rendezvous, bool own_process);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_TCP_H_
