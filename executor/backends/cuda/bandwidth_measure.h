// How fast a backend's kernels move what they must: their times by the device's events.
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

// Of one case: the bytes that it must move, and the median of its times; or why it has none.
struct BandwidthRow {
  std::string name;
  int64_t bytes = 0;
  int64_t nanoseconds = 0;
  std::string error;
};

// How often a case runs: until the device has been busy with it for so long, then so many times between events.
struct BandwidthRuns {
  int64_t warm_nanoseconds = 0;
  int timed = 1;
};

// What operands begin with: of tokens numbers below a bound, all different up to that many; else ones.
std::vector<char> BandwidthContent(const BandwidthOperand& operand);

// The middle one; of an even number the later of the two. At least 1, as clocks may stand still between two events.
int64_t MedianTime(std::vector<int64_t> nanoseconds);

// Runs each case at least once and at most 8191 times to warm up, then `runs.timed` >= 1 times, on a device of its own;
// `add` gets its row as soon as it is there. A case that fails has a row with its error, and the others go on unless
// the device takes no more work. Errors if any case has failed.
absl::Status MeasureBandwidth(const BackendEntry& backend, absl::Span<const BandwidthCase> cases,
                              const BandwidthRuns& runs, const std::function<void(const BandwidthRow&)>& add);

// {"kernel": "ADD bf16", "bytes": 805306368, "microseconds": 201.3, "terabytes_per_second": 4.000}
// {"kernel": "ADD bf16", "error": "is no launch"}
std::string BandwidthLine(const BandwidthRow& row);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_BANDWIDTH_MEASURE_H_
