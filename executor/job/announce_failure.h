// If a process fails before it has met the other processes of its job, it informs them, so that they do not wait for
// it.
#ifndef WEFT_EXECUTOR_JOB_ANNOUNCE_FAILURE_H_
#define WEFT_EXECUTOR_JOB_ANNOUNCE_FAILURE_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/job/bootstrap.h"
#include "executor/job/store.h"

namespace weft::exec {

// Serves rank 0's store: on the socket that the local launcher has opened for it, or at MASTER_ADDR.
absl::StatusOr<std::unique_ptr<StoreServer>> ServeStore(const Rendezvous& rendezvous, const StoreOptions& options);

// After a failure: waits until all ranks know of it, until no more ranks can be expected to come, or until this process
// is asked to stop.
void WaitForLatecomers(const Rendezvous& rendezvous, StoreServer& server);

// `status` is not Ok, and ConnectMesh (transports/tcp_mesh.h) has not been called. `say` is called at most once. It is
// not called if another rank's failure came first, because that rank reports it. Returns when the others know of the
// failure, when no more of them can be expected to come, or when this process is asked to stop.
void AnnounceFailure(const Rendezvous& rendezvous, const absl::Status& status, const std::function<void()>& say);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_JOB_ANNOUNCE_FAILURE_H_
