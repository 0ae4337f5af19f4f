// Differences between runs (Cluster.noise): draws the state of the machine in one run, and summarizes many runs.
#ifndef WEFT_SIMULATOR_NOISE_H_
#define WEFT_SIMULATOR_NOISE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/report.pb.h"
#include "simulator/engine/jitter.h"

namespace weft::sim {

inline constexpr int kMaxRuns = 1'000'000;

// Returns InvalidArgument if Cluster.noise causes no noise, or, naming the field and its range, if a field is out of
// range.
absl::Status CheckNoise(const Cluster& cluster);

// Returns the cluster in the state in which ranks 0..ranks-1 find it in run `run` (0, 1, ...). Slow devices and
// interfaces become rows of other_devices and other_interfaces, so no other code depends on noise. InvalidArgument if
// the cluster has fewer devices than ranks.
absl::StatusOr<Cluster> DrawCluster(const Cluster& cluster, int64_t ranks, int64_t seed, int64_t run);

// Returns the jitter of run `run`.
Jitter DrawJitter(const Noise& noise, int64_t seed, int64_t run);

// Summarizes `seconds` of at least one run. The q-th percentile is the shortest time of a run that at least q percent
// of the runs do not exceed.
NoiseReport SummarizeRuns(std::vector<double> seconds, int64_t seed);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NOISE_H_
