// Ranks are processes under an MPI launcher.
#ifndef WEFT_EXECUTOR_TRANSPORTS_MPI_H_
#define WEFT_EXECUTOR_TRANSPORTS_MPI_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "executor/interface/transport.h"

namespace weft::exec {

// What says whether MPI is given memory of devices. Where it is not, UseDevice of an asynchronous device is
// Unimplemented, and executor/transports/staged.h goes between.
enum class MpiDeviceMemory {
  // As the library says (MPIX_Query_cuda_support).
  kAsTheLibrarySays,
  // For tests with devices whose memory is the host's.
  kTaken,
};

// InvalidArgument if the launcher has not started so many ranks; FailedPrecondition without an MPI library.
absl::StatusOr<std::unique_ptr<Endpoint>> OpenMpiEndpoint(int ranks, MpiDeviceMemory device_memory);

// Of a process that fails before it opens an endpoint, under a launcher that does not end the others then (srun): joins
// them, who wait in MPI's start, calls `joined`, and ends the job. Returns if there is no MPI; where the others do not
// come, this process ends by SIGALRM after `patience_seconds`.
void EndMpiJob(int exit_status, unsigned patience_seconds, const std::function<void()>& joined);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_MPI_H_
