// Replaces the modes of Recompute that ask for a choice (INTERVAL without a number, and FIT) by modes that state what
// is recomputed. Each candidate is compiled, and its arenas decide.
#ifndef WEFT_PLANNER_CHOOSE_RECOMPUTE_H_
#define WEFT_PLANNER_CHOOSE_RECOMPUTE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace weft::planner {

// The arenas of a plan with a certain recompute.
struct PlannedArenas {
  // Indexed by pipe rank.
  std::vector<int64_t> bytes;
  // RecomputableLayers.
  std::vector<std::vector<int32_t>> layers;
};
using PlanArenas = std::function<absl::StatusOr<PlannedArenas>(const Recompute& recompute)>;

struct RecomputeDecision {
  Recompute recompute;
  // The message for the user.
  std::string note;
};

// For each pipe rank: the layers that may be recomputed, ascending. All layers of its stages, except the one of the
// loss. placement[lane][stage] = pipe rank.
std::vector<std::vector<int32_t>> RecomputableLayers(const std::vector<std::vector<int>>& placement, int64_t ranks,
                                                     const std::vector<int32_t>& layers_per_stage);

// Recomputes the first counts[rank] of layers[rank] on every rank.
Recompute RecomputeFirst(const std::vector<std::vector<int32_t>>& layers, const std::vector<int>& counts);

// For INTERVAL with interval 0: tries all intervals and takes the one whose highest arena is lowest. Ties go to the
// smallest interval.
absl::StatusOr<RecomputeDecision> ChooseInterval(const PlanArenas& plan);

// For FIT: chooses how many layers each pipe rank recomputes, always its first ones. It takes the fewest with which the
// rank's arena is at most `capacity`, or all layers if that is not enough. The arenas of ranks do not depend on each
// other, so one binary search serves all ranks with about log2(layers of a rank) + 3 compilations. If a rank with all
// its layers recomputed still lacks more than an eighth of `capacity`, only two of these compilations concern it. If
// recomputing more layers ever made an arena larger, the answer would still be a number of layers such that one layer
// less does not fit.
absl::StatusOr<RecomputeDecision> ChooseFit(const PlanArenas& plan, int64_t capacity);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_CHOOSE_RECOMPUTE_H_
