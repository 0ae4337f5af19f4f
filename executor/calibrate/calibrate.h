// Measures this machine with the real backend and the inproc transport, as a cluster that programs can be costed for.
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
  // Devices of the cluster: ranks that share this machine.
  int ranks = 4;
  int threads_per_rank = 1;
  // About how long the measurements of all kernels may take.
  double seconds = 25;
  // As CalibrateDeviceOptions.programs.
  std::vector<const Program*> programs = {};
  std::function<void(const std::string&)> on_progress = {};
  std::function<void(const std::string&)> on_note = {};
};

// A node with `ranks` devices and as many compute slots as `cores / threads_per_rank`. Kernels are measured with all
// slots busy at once, for they share caches and memory. Every figure is measured here but for memory_bytes, which is
// this machine's memory divided by the ranks.
absl::StatusOr<Cluster> Calibrate(const CalibrateOptions& options);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CALIBRATE_CALIBRATE_H_
