// Sums up how far the estimates of plans are from simulations: of all plans, and of the plans with each feature.
#ifndef WEFT_PLANNER_SEARCH_ESTIMATE_SUMMARY_TESTING_H_
#define WEFT_PLANNER_SEARCH_ESTIMATE_SUMMARY_TESTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/plan.pb.h"

namespace weft::planner {

// A plan whose estimate was compared with its simulation.
struct EstimatedPlan {
  // Plans of one problem have the same number.
  int64_t problem = 0;
  double least_seconds = 0;
  // The estimate that ranks all plans of a space, and the one that ranks plans whose bounds are tight.
  double quick_seconds = 0;
  double estimated_seconds = 0;
  double simulated_seconds = 0;
  // What may explain an error: "zero=3", "pipe", "runtime=megatron-core".
  std::vector<std::string> features;
};

// How close one of the two estimates is.
struct EstimateQuality {
  int64_t plans = 0;
  // Quantiles of |estimate / simulated - 1|, and the median of estimate / simulated - 1.
  double median_error = 0;
  double ninth_decile_error = 0;
  double median_bias = 0;
  // The median of Spearman's rank correlation, over the problems with at least eight plans.
  double spearman = 0;
  int64_t ranked_problems = 0;
};
EstimateQuality QualityOf(const std::vector<EstimatedPlan>& plans, double EstimatedPlan::* estimate);

// The features of a plan of a problem with this runtime and this network.
std::vector<std::string> FeaturesOf(const Plan& plan, const std::string& runtime, const std::string& network);

// One line for all plans and each estimate, then one for each feature, with the tight estimate. If `by_problem`, also a
// line for each problem.
std::vector<std::string> SummaryOf(const std::vector<EstimatedPlan>& plans, bool by_problem);

// The value at `share` (0 to 1) of the sorted values; 0 for no values.
double Quantile(std::vector<double> values, double share);

// Spearman's rank correlation; equal values have the mean of their ranks. 1 if all values of one list are equal.
double Spearman(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_ESTIMATE_SUMMARY_TESTING_H_
