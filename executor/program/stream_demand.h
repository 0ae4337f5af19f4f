// How many device streams a rank's program needs, and what happens if the device has too few. Some transports occupy a
// stream with a transfer until the partner is there (Endpoint::holds_streams). Two such streams in one hardware queue
// of the device can wait for each other forever, so each stream must have its own queue. If there are too few queues,
// transfers share streams in a coarser way that fits. That way must also be proven free of deadlock (rule P13).
#ifndef WEFT_EXECUTOR_PROGRAM_STREAM_DEMAND_H_
#define WEFT_EXECUTOR_PROGRAM_STREAM_DEMAND_H_

#include "absl/status/statusor.h"
#include "executor/interface/device.h"
#include "executor/interface/transport.h"
#include "proto/program.pb.h"

namespace weft::exec {

struct StreamDemand {
  // Streams of copies to the host and from it.
  int copies = 0;
  // Streams for collectives, one for each (group, purpose).
  int communicators = 0;
  int transfers = 0;
  // Upper bound on the additional streams that a transport needs if members of a transfer group (rule P4) share a
  // stream.
  int forks = 0;

  // The sum, including the compute stream.
  int total() const { return 1 + copies + communicators + transfers + forks; }
};

// Returns the rank's demand if transfers share streams as `sharing` describes.
StreamDemand DemandOf(const Program& program, int rank, TransferStreams sharing);

// Chooses how transfers share streams on this rank: as the program specifies if that fits into `budget` streams, else
// in a coarser way that fits and is proven. Ranks may choose differently: no transfer then waits for more than if all
// ranks choose the coarser way. Returns FailedPrecondition, with the figures, if no way fits. `queues` is the total
// number of the device's hardware queues.
absl::StatusOr<TransferStreams> FitTransferStreams(const Program& program, int rank, int budget, int queues);

// How the streams of an endpoint's rank are placed on its device.
struct StreamPlan {
  // Argument `budget` of StreamFold.
  int fold_budget = 0;
  TransferStreams transfer_streams = PER_EDGE;
};
// Makes the plan of the endpoint's rank. Returns the errors of FitTransferStreams.
absl::StatusOr<StreamPlan> PlanStreams(const Program& program, const Endpoint& endpoint, const ComputeDevice& device);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_STREAM_DEMAND_H_
