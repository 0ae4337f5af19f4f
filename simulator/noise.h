// How runs differ (Cluster.noise): the machine that one run finds, and what many runs say together.
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

inline constexpr int kMostRuns = 1'000'000;

// InvalidArgument, naming the field and what it may be, if Cluster.noise is absent or not a noise.
absl::Status CheckNoise(const Cluster& cluster);

// The cluster as the ranks 0..ranks-1 find it in run `run` (0, 1, ...): what is slow has become rows of other_devices
// and other_interfaces, so nothing else needs to know. InvalidArgument if it has fewer devices.
absl::StatusOr<Cluster> DrawCluster(const Cluster& cluster, int64_t ranks, int64_t seed, int64_t run);

// The jitter of the same run.
Jitter DrawJitter(const Noise& noise, int64_t seed, int64_t run);

// `seconds` of at least one run. The q-th percentile is the shortest time that at least q per cent of the runs do not
// exceed, so one that a run has taken.
NoiseReport SummarizeRuns(std::vector<double> seconds, int64_t seed);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_NOISE_H_
