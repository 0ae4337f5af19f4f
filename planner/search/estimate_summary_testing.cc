#include "planner/search/estimate_summary_testing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/util/mesh.h"

namespace weft::planner {
namespace {

constexpr size_t kFewestRanked = 8;

std::vector<double> RanksOf(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < order.size();) {
    size_t end = i + 1;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (size_t k = i; k < end; ++k) ranks[order[k]] = 0.5 * static_cast<double>(i + end - 1);
    i = end;
  }
  return ranks;
}

std::string LineOf(const std::string& name, const EstimateQuality& quality) {
  std::string line =
      absl::StrFormat("%-32s %6d plans: |error| median %5.1f %%, 90 %% %6.1f %%, bias %+6.1f %%", name, quality.plans,
                      100 * quality.median_error, 100 * quality.ninth_decile_error, 100 * quality.median_bias);
  if (quality.ranked_problems > 0) {
    absl::StrAppendFormat(&line, ", Spearman %.3f (%d)", quality.spearman, quality.ranked_problems);
  }
  return line;
}

}  // namespace

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

double Spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> ra = RanksOf(a), rb = RanksOf(b);
  const double mean = 0.5 * static_cast<double>(a.size() - 1);
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (ra[i] - mean) * (rb[i] - mean);
    aa += (ra[i] - mean) * (ra[i] - mean);
    bb += (rb[i] - mean) * (rb[i] - mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 1;
}

EstimateQuality QualityOf(const std::vector<EstimatedPlan>& plans, double EstimatedPlan::* estimate) {
  std::vector<double> errors, biases, correlations;
  struct Pairs {
    std::vector<double> estimates, times;
  };
  std::map<int64_t, Pairs> of_problem;
  for (const EstimatedPlan& plan : plans) {
    const double bias = plan.*estimate / plan.simulated_seconds - 1;
    biases.push_back(bias);
    errors.push_back(std::abs(bias));
    Pairs& pairs = of_problem[plan.problem];
    pairs.estimates.push_back(plan.*estimate);
    pairs.times.push_back(plan.simulated_seconds);
  }
  for (const auto& [problem, pairs] : of_problem) {
    if (pairs.times.size() >= kFewestRanked) correlations.push_back(Spearman(pairs.estimates, pairs.times));
  }
  return {.plans = static_cast<int64_t>(plans.size()),
          .median_error = Quantile(errors, 0.5),
          .ninth_decile_error = Quantile(errors, 0.9),
          .median_bias = Quantile(biases, 0.5),
          .spearman = Quantile(correlations, 0.5),
          .ranked_problems = static_cast<int64_t>(correlations.size())};
}

std::vector<std::string> FeaturesOf(const Plan& plan, const std::string& runtime, const std::string& network) {
  std::vector<std::string> features = {absl::StrCat("network=", network), absl::StrCat("runtime=", runtime)};
  const bool alone = MeshRanks(plan.mesh()) == 1;
  if (alone) features.emplace_back("one device");
  for (const MeshAxis& axis : plan.mesh().axes()) {
    if (axis.size() == 1) continue;
    features.push_back(absl::StrCat("axis ", axis.name()));
    if (MeshRanks(plan.mesh()) == axis.size()) features.push_back(absl::StrCat("axis ", axis.name(), " alone"));
  }
  if (AxisSize(plan.mesh(), "data") > 1) {
    features.push_back(absl::StrCat("zero=", plan.zero().stage(), plan.zero().group() > 0 ? " in groups" : ""));
  }
  if (AxisSize(plan.mesh(), "pipe") > 1) {
    features.push_back(absl::StrCat("schedule=", plan.schedule().name().empty() ? "1f1b" : plan.schedule().name()));
  }
  if (plan.offload().optimizer()) features.emplace_back("offload");
  if (plan.recompute().mode() != Recompute::NONE) {
    features.push_back(absl::StrCat("recompute=", Recompute::Mode_Name(plan.recompute().mode())));
  }
  return features;
}

std::vector<std::string> SummaryOf(const std::vector<EstimatedPlan>& plans, bool by_problem) {
  std::vector<std::string> lines = {LineOf("quick estimate", QualityOf(plans, &EstimatedPlan::quick_seconds)),
                                    LineOf("estimate", QualityOf(plans, &EstimatedPlan::estimated_seconds))};
  std::map<std::string, std::vector<EstimatedPlan>> groups;
  for (const EstimatedPlan& plan : plans) {
    for (const std::string& feature : plan.features) groups[feature].push_back(plan);
    if (by_problem) groups[absl::StrFormat("problem %6d", plan.problem)].push_back(plan);
  }
  for (const auto& [name, group] : groups) {
    lines.push_back(LineOf("  " + name, QualityOf(group, &EstimatedPlan::estimated_seconds)));
  }
  return lines;
}

}  // namespace weft::planner
