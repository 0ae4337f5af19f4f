// How many of a device's streams a rank's program wants, and what is done where the device has too few. With a
// transport whose transfers hold up a stream until the partner is there (Endpoint::holds_streams), streams in one
// hardware queue of the device can wait for each other for ever, so each must have one; how transfers share streams is
// then chosen such that they fit and the program is still proven free of deadlock (rule P13).
#ifndef WEFT_EXECUTOR_PROGRAM_STREAM_DEMAND_H_
#define WEFT_EXECUTOR_PROGRAM_STREAM_DEMAND_H_

#include "absl/status/statusor.h"
#include "executor/interface/device.h"
#include "executor/interface/transport.h"
#include "proto/program.pb.h"

namespace weft::exec {

struct StreamDemand {
  // To the host and from it.
  int copies = 0;
  // One for each (group, purpose).
  int communicators = 0;
  int transfers = 0;
  // That a transport needs beside, where members of a group (rule P4) share a stream: at most so many.
  int forks = 0;

  // With that of compute.
  int total() const { return 1 + copies + communicators + transfers + forks; }
};

// If transfers shared streams like that.
StreamDemand DemandOf(const Program& program, int rank, TransferStreams sharing);

// How transfers share streams on this rank: as the program says if that fits into `budget` streams, else in the coarser
// way that fits and has been proven. Where ranks choose differently nothing waits for more than where all take the
// coarser way. FailedPrecondition, with the figures, if there is none. `queues` is what the device has in all.
absl::StatusOr<TransferStreams> FitTransferStreams(const Program& program, int rank, int budget, int queues);

// How the streams of an endpoint's rank lie on its device.
struct StreamPlan {
  // Of StreamFold.
  int fold_budget = 0;
  TransferStreams transfer_streams = PER_EDGE;
};
// Error: that of FitTransferStreams.
absl::StatusOr<StreamPlan> PlanStreams(const Program& program, const Endpoint& endpoint, const ComputeDevice& device);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PROGRAM_STREAM_DEMAND_H_
