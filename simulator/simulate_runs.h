// Simulates many runs of a program on a machine whose runs differ (Cluster.noise).
#ifndef WEFT_SIMULATOR_SIMULATE_RUNS_H_
#define WEFT_SIMULATOR_SIMULATE_RUNS_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "proto/report.pb.h"
#include "simulator/simulate.h"

namespace weft::sim {

// Simulates `options.runs` runs, at least 1. InvalidArgument, naming the field, if there are too many or the cluster
// does not state how runs differ. If `on_run` is set, it is called before each run with the number of the run, from 1.
absl::StatusOr<NoiseReport> SimulateRuns(const Program& program, const Cluster& cluster, const SimulateOptions& options,
                                         const std::function<void(int64_t)>& on_run = nullptr);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_SIMULATE_RUNS_H_
