// Measures a device that runs work on streams (a GPU). The result is a cluster that programs can be costed for.
#ifndef WEFT_EXECUTOR_CALIBRATE_CALIBRATE_DEVICE_H_
#define WEFT_EXECUTOR_CALIBRATE_CALIBRATE_DEVICE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/calibrate/calibrate_kernels.h"
#include "executor/interface/backend.h"
#include "executor/interface/device.h"
#include "proto/cluster.pb.h"

namespace weft::exec {

struct CalibrateDeviceOptions {
  const CalibrationShapes* shapes = &LargeShapes();
  // The cluster that supplies what one device cannot show: nodes, links between devices and nodes, interfaces, tiles.
  // If null, the result is a node with this one device, whose link to itself is a copy in its memory (transport
  // `loopback`).
  const Cluster* base = nullptr;
  // Approximate time limit for the measurements of all kernels.
  double seconds = 60;
  // Programs whose steps are also measured one by one (executor/calibrate/calibrate_program.h).
  std::vector<const Program*> programs;
  // Bytes of each copy to and from the host.
  int64_t copy_bytes = int64_t{256} << 20;
  std::function<void(const std::string&)> on_progress;
  // Receives one line for each thing that could not be measured.
  std::function<void(const std::string&)> on_note;
};

// Measures kernels by events around several calls on one stream. The first call does not count, because a library
// chooses and compiles in it. Errors name the kernel.
absl::StatusOr<Cluster> CalibrateDevice(ComputeDevice* device, Backend* backend, const CalibrateDeviceOptions& options);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CALIBRATE_CALIBRATE_DEVICE_H_
