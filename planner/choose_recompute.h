// Turns the modes of Recompute that ask for a choice into ones that say what is recomputed: INTERVAL without a number
// and FIT. Candidates are judged by the arenas that they really get.
#ifndef WEFT_PLANNER_CHOOSE_RECOMPUTE_H_
#define WEFT_PLANNER_CHOOSE_RECOMPUTE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace weft::planner {

// What a plan comes to with some recompute.
struct PlannedArenas {
  // By pipe rank.
  std::vector<int64_t> bytes;
  // Layers that may be recomputed (all but that of the loss) on each pipe rank, ascending.
  std::vector<std::vector<int32_t>> layers;
};
using PlanArenas = std::function<absl::StatusOr<PlannedArenas>(const Recompute& recompute)>;

struct RecomputeDecision {
  Recompute recompute;
  // What to tell the user.
  std::string note;
};

// INTERVAL with interval 0: the interval with the lowest highest arena, of equal ones the smallest. All are tried.
absl::StatusOr<RecomputeDecision> ChooseInterval(const PlanArenas& plan);

// FIT: on each pipe rank the fewest layers, from its first on, with which its arena is at most `capacity`; all of them
// where that is not enough. Arenas of ranks do not depend on each other, so one search by halves serves all ranks:
// about log2(layers of a rank) + 3 compilations, of which a rank that lacks more than an eighth of `capacity` with all
// its layers recomputed takes part in two. Where more recomputed layers ever made an arena larger, the answer is
// one from which a layer less does not fit.
absl::StatusOr<RecomputeDecision> ChooseFit(const PlanArenas& plan, int64_t capacity);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_CHOOSE_RECOMPUTE_H_
