// The costs that a search over numbers of devices or memory limits can minimize. All plans train the same tokens in an
// iteration, so the costs of iterations can be compared.
#ifndef WEFT_PLANNER_SEARCH_OBJECTIVE_H_
#define WEFT_PLANNER_SEARCH_OBJECTIVE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/search/search.h"
#include "planner/search/try_candidate.h"
#include "proto/cluster.pb.h"
#include "proto/model_graph.pb.h"

namespace weft::planner {

struct Objective {
  // E.g. "dollars".
  std::string name;
  // The cost of an iteration of a simulated plan, in seconds, dollars or joules. `options` are those of its search.
  absl::StatusOr<double> (*cost)(const ModelGraph& model, const Cluster& cluster, const SearchOptions& options,
                                 const FoundPlan& plan) = nullptr;
  // Returns FailedPrecondition, with the name of the field to set, if the cluster does not state what the cost needs.
  // Null = the cost needs no such field.
  absl::Status (*check)(const Cluster& cluster) = nullptr;
};

// "time": seconds. "dollars": by Cluster.dollars_per_device_hour. "energy": joules, by Cluster.watts_per_device.
// "goodput": seconds divided by the share of the time of a long run that counts (docs/goodput.md).
const std::vector<Objective>& Objectives();

// Returns NotFound, with the known names, for an unknown name.
absl::StatusOr<const Objective*> FindObjective(absl::string_view name);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_OBJECTIVE_H_
