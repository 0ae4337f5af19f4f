// How fast a backend's kernels move what they must: their times by the device's events.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_BANDWIDTH_MEASURE_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_BANDWIDTH_MEASURE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/backend.h"
#include "executor/backends/cuda/bandwidth_cases.h"

namespace weft::cuda {

// Of one case: the bytes that it must move, and the median of its times.
struct BandwidthRow {
  std::string name;
  int64_t bytes = 0;
  int64_t nanoseconds = 0;
};

// What operands begin with: of tokens numbers below a bound, all different up to that many; else ones.
std::vector<char> BandwidthContent(const BandwidthOperand& operand);

// The middle one; of an even number the later of the two. At least 1, as clocks may stand still between two events.
int64_t MedianTime(std::vector<int64_t> nanoseconds);

// Runs each case once, and `runs` >= 1 times between events, on a device of its own; `add` gets its row as soon as it
// is there. Errors name the case.
absl::Status MeasureBandwidth(const BackendEntry& backend, absl::Span<const BandwidthCase> cases, int runs,
                              const std::function<void(const BandwidthRow&)>& add);

// {"kernel": "ADD bf16", "bytes": 805306368, "microseconds": 201.3, "terabytes_per_second": 4.000}
std::string BandwidthLine(const BandwidthRow& row);

}  // namespace weft::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_BANDWIDTH_MEASURE_H_
