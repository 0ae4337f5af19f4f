// Predicts how much of its time a job trains on a cluster that states how often it is interrupted
// (Cluster.reliability).
#ifndef WEFT_SIMULATOR_GOODPUT_GOODPUT_H_
#define WEFT_SIMULATOR_GOODPUT_GOODPUT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "proto/report.pb.h"

namespace weft::sim {

// Number of runs that are drawn for the percentiles.
inline constexpr int kDrawnRuns = 1000;
inline constexpr int64_t kMaxDays = 100'000;

struct GoodputOptions {
  // Days of the drawn runs; 0 = none are drawn. At most kMaxDays.
  int64_t days = 0;
  int64_t seed = 0;
};

// Returns FailedPrecondition, naming the fields to set, if the cluster does not state its reliability.
absl::Status CheckReliability(const Cluster& cluster);

// Predicts the goodput of a program with the best number of steps between checkpoints. `report` is the prediction of
// the program on the cluster, with an iteration of more than 0 seconds. InvalidArgument for a program that cannot save
// checkpoints while it trains; FailedPrecondition if the job is interrupted so often that it never saves one;
// ResourceExhausted if the drawn runs have too many interruptions.
absl::StatusOr<GoodputReport> PredictGoodput(const Program& program, const Cluster& cluster,
                                             const SimulationReport& report, const GoodputOptions& options);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_GOODPUT_GOODPUT_H_
