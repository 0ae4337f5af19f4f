// What --require-fit says of a prediction.
#ifndef WEFT_CLI_RESULTS_FIT_H_
#define WEFT_CLI_RESULTS_FIT_H_

#include "absl/status/status.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "simulator/simulate.h"

namespace weft {

// ResourceExhausted if the report of `simulation`, of `program` on `cluster`, says that it does not fit: what is needed
// and what there is, of a device or of the memory of a node. Where devices differ, also which rank has the least room,
// and where it is.
absl::Status CheckFit(const sim::Simulation& simulation, const Program& program, const Cluster& cluster);

}  // namespace weft

#endif  // WEFT_CLI_RESULTS_FIT_H_
