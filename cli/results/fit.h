// The check of --require-fit.
#ifndef WEFT_CLI_RESULTS_FIT_H_
#define WEFT_CLI_RESULTS_FIT_H_

#include "absl/status/status.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "simulator/simulate.h"

namespace weft {

// Returns ResourceExhausted if the report of `simulation` (of `program` on `cluster`) says that the program does not
// fit. The error gives the bytes needed and the bytes available, on a device or in the memory of a node. If devices
// differ, it also names the rank with the least headroom and where the rank is.
absl::Status CheckFit(const sim::Simulation& simulation, const Program& program, const Cluster& cluster);

}  // namespace weft

#endif  // WEFT_CLI_RESULTS_FIT_H_
