// From measured kernels to the rates of a device in a cluster file. Internal to calibration.
#ifndef WEFT_EXECUTOR_CALIBRATE_CALIBRATE_RATES_H_
#define WEFT_EXECUTOR_CALIBRATE_CALIBRATE_RATES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/calibrate/calibrate_kernels.h"
#include "proto/cluster.pb.h"

namespace weft::exec {

// Lower quartile: what the time is when nothing else runs on the machine for once. `values` is not empty.
double Typical(std::vector<double> values);

struct MeasureKernels {
  // Seconds of one call.
  std::function<absl::StatusOr<double>(const KernelCase& kernel)> seconds;
  // What a call costs besides, in a run, given its seconds; null = nothing.
  std::function<double(double seconds)> besides;
  std::function<void(const std::string&)> on_progress;
};

// Measures every case of the shapes: rates by kernel and dtype, peaks of products, bandwidth of memory (that of ADD),
// and the time of the smallest step.
absl::Status MeasureRates(const CalibrationShapes& shapes, const MeasureKernels& measure, Device* device);

// Cases that MeasureRates measures.
int64_t CountCases(const CalibrationShapes& shapes);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CALIBRATE_CALIBRATE_RATES_H_
