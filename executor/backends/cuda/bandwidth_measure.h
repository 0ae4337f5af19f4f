// Measures, with the events of the device, how fast the kernels of a backend move the bytes that they must move.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_BANDWIDTH_MEASURE_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_BANDWIDTH_MEASURE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/backends/cuda/bandwidth_cases.h"
#include "executor/interface/backend.h"

namespace weft::exec::cuda {

// Result of one case: the bytes that it must move and the median of its times, or its error.
struct BandwidthRow {
  std::string name;
  int64_t bytes = 0;
  int64_t nanoseconds = 0;
  std::string error;
};

// How often a case runs: first until the device has been busy for `warm_nanoseconds`, then `timed` times between
// events.
struct BandwidthRuns {
  int64_t warm_nanoseconds = 0;
  int timed = 1;
};

// Returns the initial content of an operand. Tokens are numbers less than `operand.below`, and the first `below` of
// them are all different; other elements are 1.
std::vector<char> BandwidthContent(const BandwidthOperand& operand);

// Returns the median; for an even number of times, the greater of the two middle ones. Returns at least 1, because a
// clock may not advance between two events.
int64_t MedianTime(std::vector<int64_t> nanoseconds);

// Measures every case on one device that it opens: at least 1 and at most 8191 runs to warm up, then `runs.timed` >= 1
// runs. Passes each row to `add` as soon as the case is done. The row of a failed case holds its error, and the other
// cases go on unless the device accepts no more work. Returns an error if any case failed.
absl::Status MeasureBandwidth(const BackendEntry& backend, absl::Span<const BandwidthCase> cases,
                              const BandwidthRuns& runs, const std::function<void(const BandwidthRow&)>& add);

// Returns the row as one line of JSON: a measurement, or the error of a failed case. Examples:
//   {"kernel": "ADD bf16", "bytes": 805306368, "microseconds": 201.3, "terabytes_per_second": 4.000}
//   {"kernel": "ADD bf16", "error": "is no launch"}
std::string BandwidthLine(const BandwidthRow& row);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_BANDWIDTH_MEASURE_H_
