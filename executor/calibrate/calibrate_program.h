// The steps of programs as cases of calibration. Each distinct step is measured with its own tensors, so that a
// prediction for these programs uses no other measurement. Internal to calibration.
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
  // The key of the step (proto/util/kernel_key.h).
  std::string key;
  KernelCase kernel;
};

// The steps on the compute stream, one per key and dtype. They are sorted by bytes, largest first, so that later cases
// fit into the memory that earlier cases have allocated. Steps that read images are left out, because calibration has
// no data for them. The programs must have been verified.
std::vector<ProgramCase> CasesOf(absl::Span<const Program* const> programs);

// Adds a row of kernel_rates for every case. A case that does not fit into the device's memory, or that the backend
// does not support, is left out, with a sentence in `left_out`.
absl::Status MeasureCases(const std::vector<ProgramCase>& cases, const MeasureKernels& measure, Device* device,
                          std::vector<std::string>* left_out);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CALIBRATE_CALIBRATE_PROGRAM_H_
