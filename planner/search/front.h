// Best plans for several numbers of devices, or for several memory limits, and which of them costs least.
#ifndef WEFT_PLANNER_SEARCH_FRONT_H_
#define WEFT_PLANNER_SEARCH_FRONT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/search/objective.h"
#include "planner/search/search.h"
#include "proto/cluster.pb.h"
#include "proto/model_graph.pb.h"

namespace weft::planner {

struct FrontPoint {
  int64_t devices = 0;
  // Bytes that a plan may use on each device; with several kinds of devices, on those with the most memory.
  int64_t memory_bytes = 0;
  // It has no plans if none fits, or if the search was stopped before it found one.
  SearchResult result;
  // Cost of an iteration of the best plan, in the unit of the objective; 0 = there is no plan.
  double cost = 0;
};

struct Front {
  std::vector<FrontPoint> points;
  // Index of the point with the lowest cost, the first of equals; points.size() if none has a plan.
  size_t best = 0;
};

// The numbers of devices from `fewest` to `most` that are searched: `fewest` times powers of two, and `most`.
std::vector<int64_t> DeviceCounts(int64_t fewest, int64_t most);

// Searches the plan with the shortest iteration for each number of devices; the objective compares these plans. For a
// given number, the shortest iteration also costs fewest dollars and joules. If all searches fail, returns the error of
// the first.
//
// The searches share SearchOptions.budget_seconds: each may take what is left, divided by the number of searches that
// are left.
absl::StatusOr<Front> SearchDevices(const ModelGraph& model, const Cluster& cluster, const SearchOptions& options,
                                    const std::vector<int64_t>& counts, const Objective& objective);

// Searches with less and less memory: each limit is kMemoryStep times what the best plan before it takes, until no plan
// fits or kMaxLimits limits were searched.
inline constexpr double kMemoryStep = 0.9;
inline constexpr int kMaxLimits = 8;
absl::StatusOr<Front> SearchMemoryLimits(const ModelGraph& model, const Cluster& cluster, const SearchOptions& options,
                                         const Objective& objective);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_FRONT_H_
