// A process of a job that fails before it has met the others tells them, so that they do not wait for it.
#ifndef WEFT_EXECUTOR_JOB_ANNOUNCE_FAILURE_H_
#define WEFT_EXECUTOR_JOB_ANNOUNCE_FAILURE_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/job/bootstrap.h"
#include "executor/job/store.h"

namespace weft::exec {

// Rank 0's store: on the socket that the local launcher has opened for it, or at MASTER_ADDR.
absl::StatusOr<std::unique_ptr<StoreServer>> ServeStore(const Rendezvous& rendezvous, const StoreOptions& options);

// After a failure: until all ranks know it, it is not to be expected any more that they come, or this one is asked to
// stop.
void WaitForLatecomers(const Rendezvous& rendezvous, StoreServer& server);

// `status` is not Ok, and ConnectMesh (transports/tcp_mesh.h) has not been called. `say` is called at most once: not
// where another rank's failure came first, which that one says. Returns when the others know, when it is not to be
// expected any more that they come, or when this process is asked to stop.
void AnnounceFailure(const Rendezvous& rendezvous, const absl::Status& status, const std::function<void()>& say);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_JOB_ANNOUNCE_FAILURE_H_
