// Answers "does this plan fit, what takes the memory, and what would change that?" (docs/fit.md).
#ifndef WEFT_PLANNER_FIT_FIT_H_
#define WEFT_PLANNER_FIT_FIT_H_

#include <string>

#include "absl/status/statusor.h"
#include "planner/fit/memory_estimate.h"
#include "proto/cluster.pb.h"
#include "proto/fit_report.pb.h"
#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "proto/runtime.pb.h"

namespace weft::planner {

struct FitOptions {
  // Borrowed; the recipe and the plan are as the user wrote them.
  const ModelGraph& model;
  const Recipe& recipe;
  const Plan& plan;
  const Cluster& cluster;
  // The cost model by which stages are cut.
  std::string cost = "roofline";
  // Null = weft's own executor.
  const Runtime* runtime = nullptr;
  // Compile the plan, however long that takes, instead of estimating it.
  bool exact = false;
  // Number of remedies to look for.
  int wanted = 5;
};

// Returns the report of a plan, without `fewest`. Compiles the plan if it is small, if no estimate is possible, or if
// the estimate is too close to the capacity to decide. Remedies come from estimates; remedies close to the capacity are
// compiled too, so every remedy fits. Fails as the compiler does.
absl::StatusOr<FitReport> Fit(const FitOptions& options);

// Returns the report as text.
std::string FitReportText(const FitReport& report);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_FIT_FIT_H_
