// Turns measured kernels into the rates of a device in a cluster file. Internal to calibration.
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

// The lower quartile: the time while nothing else happens to run on the machine. `values` is not empty.
double Typical(std::vector<double> values);

struct MeasureKernels {
  // Seconds of one call.
  std::function<absl::StatusOr<double>(const KernelCase& kernel)> seconds;
  // Further seconds that a call costs in a run, given the call's own seconds; null = none.
  std::function<double(double seconds)> besides;
  std::function<void(const std::string&)> on_progress;
};

// Measures every case of the shapes: rates by kernel and dtype, peaks of products, memory bandwidth (from ADD), and the
// time of the smallest step.
absl::Status MeasureRates(const CalibrationShapes& shapes, const MeasureKernels& measure, Device* device);

// Number of cases that MeasureRates measures.
int64_t CountCases(const CalibrationShapes& shapes);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CALIBRATE_CALIBRATE_RATES_H_
