// The steps of programs as cases of calibration: each different one is measured with its own tensors, so that a
// prediction of these programs rests on nothing else. Internal to calibration.
#ifndef WEFT_EXECUTOR_CALIBRATE_CALIBRATE_PROGRAM_H_
#define WEFT_EXECUTOR_CALIBRATE_CALIBRATE_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/calibrate/calibrate_kernels.h"
#include "executor/calibrate/calibrate_rates.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"

namespace weft::exec {

struct ProgramCase {
  // proto/util/kernel_key.h
  std::string key;
  KernelCase kernel;
};

// Those on the compute stream, each key and dtype once, by their bytes from the most on: what one case leaves, others
// fit in. Without those that read images, for which calibration has no data. The programs are verified.
std::vector<ProgramCase> CasesOf(absl::Span<const Program* const> programs);

// Adds a row of kernel_rates for every case. One that does not fit into the device's memory, or that the backend does
// not take, is left out with a sentence in `left_out`.
absl::Status MeasureCases(const std::vector<ProgramCase>& cases, const MeasureKernels& measure, Device* device,
                          std::vector<std::string>* left_out);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CALIBRATE_CALIBRATE_PROGRAM_H_
