// How runs differ (Cluster.noise): draws the machine that one run finds, and summarizes many runs.
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

// Returns InvalidArgument, naming the field and its range, if Cluster.noise is absent or out of range.
absl::Status CheckNoise(const Cluster& cluster);

// Returns the cluster as the ranks 0..ranks-1 find it in run `run` (0, 1, ...). Whatever is slow becomes a row of
// other_devices or other_interfaces, so no other code needs to know about noise. InvalidArgument if the cluster has
// fewer devices.
absl::StatusOr<Cluster> DrawCluster(const Cluster& cluster, int64_t ranks, int64_t seed, int64_t run);

// Returns the jitter of the same run.
Jitter DrawJitter(const Noise& noise, int64_t seed, int64_t run);

// Summarizes `seconds` of at least one run. The q-th percentile is the shortest time of a run that at least q percent
// of the runs do not exceed.
NoiseReport SummarizeRuns(std::vector<double> seconds, int64_t seed);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NOISE_H_
