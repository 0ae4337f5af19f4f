// Compares the plan that a user runs today with the best plan, and finds the few changes that bring most of the gain.
#ifndef WEFT_PLANNER_SEARCH_CHANGES_FROM_H_
#define WEFT_PLANNER_SEARCH_CHANGES_FROM_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "planner/search/search_context.h"
#include "planner/search/space.h"
#include "planner/search/try_candidate.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace weft::planner {

// "Most of the gain" is this share of the time by which the best plan is faster.
inline constexpr double kMostOfTheGain = 0.8;

// A plan with the choices of the best plan in some dimensions.
struct ChangedPlan {
  // Names of the dimensions; empty = the user's plan as it is.
  std::vector<std::string> dimensions;
  // The best plan's choices in these dimensions.
  std::string settings;
  // 0 = the plan is refused or does not fit.
  double iteration_seconds = 0;
  // Bytes of the fullest rank; 0 = the plan is refused.
  int64_t device_bytes = 0;
};

struct ChangesFrom {
  ChangedPlan start;
  // The change of the fewest dimensions that brings most of the gain; if several changes have as few dimensions, the
  // fastest of them. If the user's plan does not fit, the smallest change with which it fits and takes at most 5 %
  // longer than the best plan. It has no dimensions if the user's plan is as fast as the best one, or if the search was
  // stopped.
  ChangedPlan change;
  // Changes of one dimension each, in the order of the space, without those that are refused.
  std::vector<ChangedPlan> single;
};

// Compares `plan` with `best`, and compiles and simulates changes of `plan`. `start` is the plan as it is, tried
// without an error. `stop` may be null.
ChangesFrom FindChangesFrom(const SearchContext& context, const Space& space, const Recipe& recipe, const Plan& plan,
                            const TriedPlan& start, const FoundPlan& best, const std::function<bool()>& stop);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_CHANGES_FROM_H_
