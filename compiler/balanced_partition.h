// Cuts a row of layers into contiguous stages so that the most expensive stage is as cheap as possible.
//
//   costs 3 1 1 1 2 | 3 stages:   3 | 1 1 1 | 2    maximum 3
//
// Every stage gets at least one layer. Of all optimal cuts, the one whose counts are lexicographically smallest: early
// stages get few layers, because they hold the activations of more microbatches.
// Time: O(stages * layers * log layers), exact (dynamic programme over suffixes).
#ifndef WEFT_COMPILER_BALANCED_PARTITION_H_
#define WEFT_COMPILER_BALANCED_PARTITION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace weft {

// Layers per stage. InvalidArgument if there are fewer layers than stages, no stage, or a negative cost; sums of costs
// saturate at 2^62.
absl::StatusOr<std::vector<int32_t>> BalancedPartition(absl::Span<const int64_t> costs, int32_t stages);

}  // namespace weft

#endif  // WEFT_COMPILER_BALANCED_PARTITION_H_
