// Compiles, proves and simulates one plan of a search.
#ifndef WEFT_PLANNER_SEARCH_TRY_CANDIDATE_H_
#define WEFT_PLANNER_SEARCH_TRY_CANDIDATE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/search/plan_bound.h"
#include "planner/search/search_context.h"
#include "planner/search/space.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "proto/recipe.pb.h"
#include "proto/report.pb.h"

namespace weft::planner {

struct FoundPlan {
  ChoiceIndices candidate = {};
  // The candidate's choices.
  std::string settings = {};
  // They have the stage cut and everything else that the planner chose. The recipe has the microbatch.
  Recipe recipe = {};
  Plan plan = {};
  SimulationReport report = {};
  // Bytes of the fullest rank.
  int64_t device_bytes = 0;
  // True if the program is the one that weft compile makes (TryAsItIs).
  bool is_finished = false;
  // The bounds before the plan was compiled (plan_bound.h).
  double least_seconds = 0;
  int64_t least_bytes = 0;
};

struct TriedPlan {
  // The reason if the plan was refused.
  absl::Status status = absl::OkStatus();
  FoundPlan found = {};
  // By pipe rank.
  std::vector<int64_t> rank_bytes = {};
  bool fits = false;
  // Arenas of another order could be low enough.
  bool may_fit = false;
  // It was given up, because it recomputes too much.
  bool is_slower = false;
};

// Tries `plan`, whose recipe and plan are set. The compiler makes the choices that the plan leaves open, so the program
// is the one that weft compile makes.
TriedPlan TryAsItIs(const SearchContext& context, FoundPlan plan);

// Tries `plan`, whose recipe, plan and candidate are set. With recompute FIT, each pipe rank recomputes the first of
// its layers: the fewest with which it fits, as weft compile chooses them, and at least those that `bound` says. If
// `is_slower` is not null, the plan is given up when it returns true for the number of layers that each rank must
// recompute at least.
//
// Arenas may be somewhat higher than those of weft compile, unless the plan fits only with the lower ones. There may be
// no evaluation program. The times are the same.
TriedPlan TryCandidate(const SearchContext& context, FoundPlan plan, const ScheduleShape& shape,
                       const std::vector<int32_t>& layers_per_stage, const PlanBound& bound,
                       const std::function<bool(const std::vector<double>&)>& is_slower);

// Returns the program of a plan that was tried. Its arenas may be higher than those of weft compile; its times are the
// same.
absl::StatusOr<Program> ProgramOf(const SearchContext& context, const FoundPlan& plan);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_TRY_CANDIDATE_H_
