// Searches a space of plans for the fastest one that fits, and bounds how much faster another plan of the space could
// be.
#ifndef WEFT_PLANNER_SEARCH_SEARCH_H_
#define WEFT_PLANNER_SEARCH_SEARCH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/search/changes_from.h"
#include "planner/search/sensitivity.h"
#include "planner/search/space.h"
#include "planner/search/try_candidate.h"
#include "proto/cluster.pb.h"
#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "proto/runtime.pb.h"

namespace weft::planner {

struct SearchProgress {
  // Number of plans in the space, and how many of them were simulated so far.
  int64_t plans = 0;
  int64_t simulated = 0;
  // Iteration time of the best plan so far (0 = none yet), and by what share of it another plan could be faster.
  double best_seconds = 0;
  double gap = 0;
};

struct StartingPlan {
  // The recipe's microbatch.
  int64_t microbatch_sequences = 0;
  Plan plan;
};

struct SearchOptions {
  SpaceOptions space;
  std::string cost;
  std::string network = "analytic";
  const Runtime* runtime = nullptr;
  // The search ends if no other plan can be faster than the best one by more than this share of the best one's time.
  double gap = 0.01;
  // Bytes that a plan may use on each device; 0 = all that the device has.
  int64_t memory_bytes = 0;
  // Compiles and simulates every plan, whatever its bound. For tests.
  bool exhaustive = false;
  // Also find SearchResult.sensitivities.
  bool sensitivities = false;
  int threads = 1;
  // See SearchContext.cache.
  std::string cache = {};
  // The number of plans in the result.
  int wanted = 5;
  // If set, the calling thread calls it now and then. The search ends once it returns true.
  std::function<bool()> stop = nullptr;
  // The search also ends after this time; 0 = no limit. Searches for several numbers of devices or memory limits share
  // it (front.h).
  double budget_seconds = 0;
  std::function<void(const SearchProgress&)> on_progress = nullptr;
  // The plan that the user runs today, which the search then compares with the best plan.
  std::optional<StartingPlan> from;
};

// A plan of a kind that people often choose (popular_choices.h): the fastest of the plans of the kind with the shortest
// estimates, which the search tries.
struct PopularPlan {
  std::string kind;
  // The plan's settings; empty = no plan that was tried fits.
  std::string settings;
  // Its simulated iteration; 0 = no plan fits.
  double iteration_seconds = 0;
  // Bytes of the plan's fullest rank. If no plan fits, the bytes that the smallest plan of the kind takes at least; 0 =
  // all are refused.
  int64_t device_bytes = 0;
};

struct SearchResult {
  // The fastest plans that fit, fastest first.
  std::vector<FoundPlan> plans;
  // Number of plans in the space: refused + unfit + slower + simulated + open.
  int64_t space = 0;
  // Plans that weft or the runtime refuses, and the reason of one refusal.
  int64_t refused = 0;
  std::string refusal;
  // Plans whose states and activations alone take more than the memory, or that were compiled and do not fit.
  int64_t unfit = 0;
  // Bytes that the smallest of these plans takes at least; 0 = there is none.
  int64_t least_unfit_bytes = 0;
  // Plans that cannot be faster than the best one by more than the gap.
  int64_t slower = 0;
  // Plans that were compiled, proven and simulated, and fit.
  int64_t simulated = 0;
  // Plans that the search did not reach because it was stopped.
  int64_t open = 0;
  // One entry for each kind that has plans in the space.
  std::vector<PopularPlan> popular;
  // A plan that does not fit but, simulated with more memory, is faster than the best one. If the search finds several,
  // it takes the smallest.
  std::optional<FoundPlan> larger;
  // Set if SearchOptions.from is set and a plan fits.
  std::optional<ChangesFrom> changes;
  // How wrong the cluster's figures may be before another plan of `plans` is the fastest.
  std::vector<Sensitivity> sensitivities;
  std::vector<Dimension> dimensions;
  // Lower bound: no plan of the space that fits has a shorter iteration.
  double least_seconds = 0;
  // (best - least) / best.
  double gap = 0;
  bool stopped = false;
};

// False for modes that choose layers by number: profiles have only a few layers of the model, so they cannot measure
// such modes.
bool IsSearched(Recompute::Mode mode);

// The inputs may be as the user wrote them; SearchOptions.space has the recipe and the plan. Returns InvalidArgument if
// the inputs are wrong, or if the space has no plan. A result without plans means that no plan fits. The result does
// not depend on the number of threads unless the search was stopped.
absl::StatusOr<SearchResult> Search(const ModelGraph& model, const Cluster& cluster, const SearchOptions& options);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_SEARCH_H_
