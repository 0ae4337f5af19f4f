// Cuts a row of layers into contiguous stages so that the most expensive stage is as cheap as possible.
//
//   costs 3 1 1 1 2 | 3 stages:   3 | 1 1 1 | 2    maximum 3
//
// Every stage gets at least one layer. Among the cuts with the smallest maximum, the one whose next largest stage is
// cheapest wins, then the one whose stage after that is cheapest, and so on. Among equal cuts, the one with the
// lexicographically smallest counts wins: early stages get few layers, because they hold the activations of more
// microbatches.
//
// Stages may be on different kinds of devices. A layer then has a cost on each kind, and the costs that are compared
// are those of each stage on the slowest of its devices.
//
//   costs 2 2 2 2 2 2, on the device of the second stage 1 1 1 1 1 1 | 2 stages:   2 2 | 1 1 1 1    maximum 4
//
// Time: O(stages^2 * layers^2), exact (dynamic programming over suffixes). If stages^2 * layers^2 exceeds 2^30, only
// the maximum is minimized, in O(stages * layers * log cost), and each layer is charged its share of the recomputed
// cost.
#ifndef WEFT_COMPILER_GRAPH_BALANCED_PARTITION_H_
#define WEFT_COMPILER_GRAPH_BALANCED_PARTITION_H_

#include <cstdint>
#include <functional>
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

// Costs of all layers on one kind of device.
struct KindCosts {
  std::vector<int64_t> layers;
  RecomputeCosts recompute = {};
};

struct MixedStages {
  std::vector<KindCosts> kinds;
  // For each stage the kinds of the devices that run it, at least one.
  std::vector<std::vector<int32_t>> kinds_of_stage;
  // Returns whether every device of a stage can hold layers [from, to). If it cannot, it cannot hold more layers
  // either. Null = always.
  std::function<bool(int32_t stage, int64_t from, int64_t to)> holds = nullptr;
};

// Returns the number of layers per stage. If there are cuts whose stages can all hold their layers, the result is the
// best of these, else the best of all cuts. InvalidArgument as above, or if a stage has no kind with costs.
absl::StatusOr<std::vector<int32_t>> MixedPartition(const MixedStages& mixed);

}  // namespace weft

#endif  // WEFT_COMPILER_GRAPH_BALANCED_PARTITION_H_
