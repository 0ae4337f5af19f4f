// The report of a search, as a message and as text.
#ifndef WEFT_PLANNER_SEARCH_PLAN_REPORT_H_
#define WEFT_PLANNER_SEARCH_PLAN_REPORT_H_

#include <string>

#include "planner/search/front.h"
#include "planner/search/search.h"
#include "proto/cluster.pb.h"
#include "proto/model_graph.pb.h"
#include "proto/plan_report.pb.h"

namespace weft::planner {

// Plans whose predictions differ by less than this share count as equal: the median error of the predictions for runs
// that had no part in fitting the model (docs/accuracy.md).
inline constexpr double kModelError = 0.036;

// The report of one plan. `best_seconds`: the iteration of the best plan.
PlannedRun PlannedRunOf(const FoundPlan& plan, double best_seconds);

PlanReport ReportOf(const ModelGraph& model, const Cluster& cluster, const SearchOptions& options,
                    const SearchResult& result);

// The report of the point that costs least, which must exist, with the others in `front`.
PlanReport ReportOf(const ModelGraph& model, const Cluster& cluster, const SearchOptions& options, const Front& front,
                    const Objective& objective);

// The report as lines for a terminal: the plans as a table, the certificate, what limits the best plan, how popular
// kinds of plans compare, and how the space was covered.
std::string PlanReportText(const PlanReport& report);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_PLAN_REPORT_H_
