// Replaces the modes of Recompute that ask for a choice, INTERVAL without a number and FIT, by modes that say what is
// recomputed. Candidates are judged by the arenas that they really get.
#ifndef WEFT_PLANNER_CHOOSE_RECOMPUTE_H_
#define WEFT_PLANNER_CHOOSE_RECOMPUTE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace weft::planner {

// The arenas of a plan with some recompute.
struct PlannedArenas {
  // Indexed by pipe rank.
  std::vector<int64_t> bytes;
  // The layers on each pipe rank that may be recomputed (all except the one of the loss), ascending.
  std::vector<std::vector<int32_t>> layers;
};
using PlanArenas = std::function<absl::StatusOr<PlannedArenas>(const Recompute& recompute)>;

struct RecomputeDecision {
  Recompute recompute;
  // The message for the user.
  std::string note;
};

// For INTERVAL with interval 0: tries all intervals and takes the one with the smallest highest arena. Ties go to the
// smallest interval.
absl::StatusOr<RecomputeDecision> ChooseInterval(const PlanArenas& plan);

// For FIT: on each pipe rank, recomputes the first layers: the fewest with which the rank's arena is at most
// `capacity`, or all layers if that is not enough. The arenas of ranks do not depend on each other, so one binary
// search serves all ranks with about log2(layers of a rank) + 3 compilations. A rank that lacks more than an eighth of
// `capacity` with all its layers recomputed takes part in only two of them. If recomputing more layers ever made an
// arena larger, the answer would still be a number of layers such that one layer less does not fit.
absl::StatusOr<RecomputeDecision> ChooseFit(const PlanArenas& plan, int64_t capacity);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_CHOOSE_RECOMPUTE_H_
