// Cuts a row of layers into contiguous stages so that the most expensive stage is as cheap as possible.
//
//   costs 3 1 1 1 2 | 3 stages:   3 | 1 1 1 | 2    maximum 3
//
// Every stage gets at least one layer. Of all cuts with the smallest maximum, the one whose next largest stage is
// cheapest, then the one after that, and so on; of equal ones, the one whose counts are lexicographically smallest:
// early stages get few layers, because they hold the activations of more microbatches.
// Time: O(stages^2 * layers^2), exact (dynamic programme over suffixes). Where that is more than 2^30, only the maximum
// is smallest, in O(stages * layers * log layers), and each layer is charged its share of what is recomputed.
#ifndef WEFT_COMPILER_GRAPH_BALANCED_PARTITION_H_
#define WEFT_COMPILER_GRAPH_BALANCED_PARTITION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace weft {

// What a stage costs for computing layers again: of those of its layers that can be recomputed, the first and then
// every `every`-th.
struct RecomputeCosts {
  // Per layer; negative = never recomputed. Empty = no layer.
  std::vector<int64_t> layers;
  int32_t every = 1;
};

// Layers per stage. InvalidArgument if there are fewer layers than stages, no stage, or a negative cost; sums of costs
// saturate at 2^61.
absl::StatusOr<std::vector<int32_t>> BalancedPartition(absl::Span<const int64_t> costs, int32_t stages,
                                                       const RecomputeCosts& recompute = {});

}  // namespace weft

#endif  // WEFT_COMPILER_GRAPH_BALANCED_PARTITION_H_
