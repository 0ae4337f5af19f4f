// Measures this machine with the real backend and the inproc transport. The result is a cluster that programs can be
// costed for.
#ifndef WEFT_EXECUTOR_CALIBRATE_CALIBRATE_H_
#define WEFT_EXECUTOR_CALIBRATE_CALIBRATE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"

namespace weft::exec {

struct CalibrateOptions {
  // Number of devices in the cluster: the ranks that share this machine.
  int ranks = 4;
  int threads_per_rank = 1;
  // Approximate time limit for the measurements of all kernels.
  double seconds = 25;
  // Programs whose steps are also measured one by one, as in CalibrateDeviceOptions.
  std::vector<const Program*> programs = {};
  std::function<void(const std::string&)> on_progress = {};
  std::function<void(const std::string&)> on_note = {};
};

// Returns a node with `ranks` devices and `cores / threads_per_rank` compute slots. Kernels are measured with all slots
// busy at once, because they share caches and memory. All times and rates are measured here. memory_bytes is this
// machine's memory divided by the ranks.
absl::StatusOr<Cluster> Calibrate(const CalibrateOptions& options);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CALIBRATE_CALIBRATE_H_
