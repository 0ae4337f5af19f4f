// The transport between ranks that are processes under an MPI launcher.
#ifndef WEFT_EXECUTOR_TRANSPORTS_MPI_H_
#define WEFT_EXECUTOR_TRANSPORTS_MPI_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "executor/interface/transport.h"

namespace weft::exec {

// Decides whether MPI is given device memory. If not, UseDevice of an asynchronous device is Unimplemented, and
// executor/transports/staged.h copies in between.
enum class MpiDeviceMemory {
  // As the library states (MPIX_Query_cuda_support).
  kAsTheLibrarySays,
  // MPI is given device memory: for tests with devices whose memory is host memory.
  kTaken,
};

// InvalidArgument if the launcher has not started `ranks` ranks; FailedPrecondition without an MPI library.
absl::StatusOr<std::unique_ptr<Endpoint>> OpenMpiEndpoint(int ranks, MpiDeviceMemory device_memory);

// For a process that fails before it opens an endpoint, under a launcher that does not end the other processes then
// (srun). Joins the others, which wait in MPI's start, calls `joined`, and ends the job. Returns if there is no MPI. If
// the others do not come, SIGALRM ends this process after `patience_seconds`.
void EndMpiJob(int exit_status, unsigned patience_seconds, const std::function<void()>& joined);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_MPI_H_
