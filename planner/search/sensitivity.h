// How wrong the cluster's figures may be before another plan is the fastest.
#ifndef WEFT_PLANNER_SEARCH_SENSITIVITY_H_
#define WEFT_PLANNER_SEARCH_SENSITIVITY_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "planner/search/search_context.h"
#include "planner/search/try_candidate.h"

namespace weft::planner {

// The effect of one figure of the cluster, which is changed alone. All plans are simulated again, unchanged.
struct Sensitivity {
  // A name of simulator/what_if.h, e.g. "nic".
  std::string figure;
  // The factor nearest to 1, downwards and upwards, for which another of the plans is the fastest, and the index of
  // that plan; 0 = the first plan is the fastest at kMaxFactor.
  double lower = 0;
  size_t lower_plan = 0;
  double upper = 0;
  size_t upper_plan = 0;
};

// If another plan is the fastest at this factor or its inverse, the smallest change with another fastest plan is found
// by bisection, to within 5 %.
inline constexpr double kMaxFactor = 4;

// Simulates `plans`, whose first is the fastest, on changed clusters. Figures that the cluster does not state, or that
// change no plan's time, are left out. So are figures that are not done when `stop` returns true.
std::vector<Sensitivity> FindSensitivities(const SearchContext& context, absl::Span<const FoundPlan> plans,
                                           const std::function<bool()>& stop);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_SENSITIVITY_H_
