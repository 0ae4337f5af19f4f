// Many runs of a program on a machine whose runs differ (Cluster.noise).
#ifndef WEFT_SIMULATOR_SIMULATE_RUNS_H_
#define WEFT_SIMULATOR_SIMULATE_RUNS_H_

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "proto/report.pb.h"
#include "simulator/simulate.h"

namespace weft {

// `options.runs` of them, at least 1. InvalidArgument, naming the field, if there are too many or the cluster does not
// say how runs differ.
absl::StatusOr<NoiseReport> SimulateRuns(const Program& program, const Cluster& cluster,
                                         const SimulateOptions& options);

}  // namespace weft

#endif  // WEFT_SIMULATOR_SIMULATE_RUNS_H_
