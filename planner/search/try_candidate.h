// Compiles, proves and simulates one plan of a search.
#ifndef WEFT_PLANNER_SEARCH_TRY_CANDIDATE_H_
#define WEFT_PLANNER_SEARCH_TRY_CANDIDATE_H_

#include <cstdint>
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
  // With the stage cut and everything else that the planner chose. The recipe has the microbatch.
  Recipe recipe = {};
  Plan plan = {};
  SimulationReport report = {};
  // Of the fullest rank.
  int64_t device_bytes = 0;
  // The program is the one that weft compile makes (TryAsItIs).
  bool is_finished = false;
  // What the bounds said before the plan was compiled (plan_bound.h).
  double least_seconds = 0;
  int64_t least_bytes = 0;
};

struct TriedPlan {
  // Why the plan was refused.
  absl::Status status = absl::OkStatus();
  FoundPlan found = {};
  // By pipe rank.
  std::vector<int64_t> rank_bytes = {};
  bool fits = false;
};

// Tries `plan`, whose recipe and plan are set, with all choices that it leaves open made as the compiler makes them.
// The program is the one that weft compile makes.
TriedPlan TryAsItIs(const SearchContext& context, FoundPlan plan);

// Tries `plan`, whose recipe, plan and candidate are set. With recompute FIT, each pipe rank recomputes the first of
// its layers: the fewest with which it fits, as weft compile chooses them, and at least those that `bound` says.
//
// Arenas may be somewhat higher than those of weft compile, unless the plan fits only with low ones, and there may be
// no evaluation program. The times are the same.
TriedPlan TryCandidate(const SearchContext& context, FoundPlan plan, const ScheduleShape& shape,
                       const std::vector<int32_t>& layers_per_stage, const PlanBound& bound);

// The program of a plan that was tried, whose arenas may be higher than those of weft compile. Its times are the same.
absl::StatusOr<Program> ProgramOf(const SearchContext& context, const FoundPlan& plan);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_TRY_CANDIDATE_H_
