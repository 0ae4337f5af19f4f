// How many device streams a rank's program needs, and what happens if the device has too few. The transfers of some
// transports hold up a stream until the partner is there (Endpoint::holds_streams). With these, streams in one hardware
// queue of the device can wait for each other for ever, so each stream must have its own queue. The way in which
// transfers share streams is then chosen such that they fit and the program is still proven free of deadlock (rule
// P13).
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
  // One for each (group, purpose).
  int communicators = 0;
  int transfers = 0;
  // Upper bound on the streams that a transport needs in addition, where members of a group (rule P4) share a stream.
  int forks = 0;

  // The sum, including the compute stream.
  int total() const { return 1 + copies + communicators + transfers + forks; }
};

// The demand if transfers share streams like that.
StreamDemand DemandOf(const Program& program, int rank, TransferStreams sharing);

// Chooses how transfers share streams on this rank: as the program says if that fits into `budget` streams, else in a
// coarser way that fits and is proven. If ranks choose differently, nothing waits for more than if all take the coarser
// way. FailedPrecondition, with the figures, if no way fits. `queues` is the number of hardware queues that the device
// has in all.
absl::StatusOr<TransferStreams> FitTransferStreams(const Program& program, int rank, int budget, int queues);

// How the streams of an endpoint's rank are placed on its device.
struct StreamPlan {
  // The budget of StreamFold.
  int fold_budget = 0;
  TransferStreams transfer_streams = PER_EDGE;
};
// Errors are those of FitTransferStreams.
absl::StatusOr<StreamPlan> PlanStreams(const Program& program, const Endpoint& endpoint, const ComputeDevice& device);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_STREAM_DEMAND_H_
