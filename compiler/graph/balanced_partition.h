// Cuts a row of layers into contiguous stages so that the most expensive stage is as cheap as possible.
//
//   costs 3 1 1 1 2 | 3 stages:   3 | 1 1 1 | 2    maximum 3
//
// Every stage gets at least one layer. Among the cuts with the smallest maximum, the one whose next largest stage is
// cheapest wins, then the one whose stage after that is cheapest, and so on. Among equal cuts, the one with the
// lexicographically smallest counts wins: early stages get few layers, because they hold the activations of more
// microbatches.
//
// Time: O(stages^2 * layers^2), exact (dynamic programming over suffixes). If stages^2 * layers^2 exceeds 2^30, only
// the maximum is minimized, in O(stages * layers * log layers), and each layer is charged its share of the recomputed
// cost.
#ifndef WEFT_COMPILER_GRAPH_BALANCED_PARTITION_H_
#define WEFT_COMPILER_GRAPH_BALANCED_PARTITION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace weft {

// The cost of recomputation in a stage. Among the stage's layers that can be recomputed, the first is recomputed, and
// then every `every`-th.
struct RecomputeCosts {
  // Cost per layer; negative = never recomputed. Empty = no layer is recomputed.
  std::vector<int64_t> layers;
  int32_t every = 1;
};

// Returns the number of layers per stage. InvalidArgument if there are fewer layers than stages, no stage, or a
// negative cost. Sums of costs saturate at 2^61.
absl::StatusOr<std::vector<int32_t>> BalancedPartition(absl::Span<const int64_t> costs, int32_t stages,
                                                       const RecomputeCosts& recompute = {});

}  // namespace weft

#endif  // WEFT_COMPILER_GRAPH_BALANCED_PARTITION_H_
