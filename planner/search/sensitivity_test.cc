#include "planner/search/sensitivity.h"

#include <algorithm>
#include <string>
#include <vector>

#include "catalog/load.h"
#include "compiler/models/load_model.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "planner/search/search.h"
#include "simulator/simulate.h"
#include "simulator/what_if.h"

namespace weft::planner {
namespace {

SearchResult SmallSearch() {
  SearchOptions options;
  options.space.recipe.set_global_batch_sequences(8);
  options.space.recipe.set_sequence_length(64);
  options.space.devices = 16;
  options.space.schedules = {"1f1b"};
  options.space.excluded = {"offload", "recompute"};
  options.cost = "roofline";
  options.gap = 0.5;
  options.threads = 2;
  options.sensitivities = true;
  absl::StatusOr<SearchResult> result = Search(*LoadModel("gpt2-tiny"), *LoadCluster("dgx-a100-80g"), options);
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

// Compiles and simulates every plan anew on the changed cluster.
std::vector<double> SecondsWith(const SearchResult& result, const std::string& figure, double factor) {
  const Cluster stated = *LoadCluster("dgx-a100-80g");
  const Cluster changed = *sim::ChangedCluster(stated, {{.name = figure, .factor = factor}});
  std::vector<double> seconds;
  for (const FoundPlan& plan : result.plans) {
    CompileOptions compile;
    compile.cost = "roofline";
    const auto program = CompilePlan(*LoadModel("gpt2-tiny"), plan.recipe, plan.plan, stated, compile);
    EXPECT_TRUE(program.ok()) << program.status();
    const auto simulation = sim::Simulate(*program, changed, {.cost = "roofline"});
    EXPECT_TRUE(simulation.ok()) << simulation.status();
    seconds.push_back(simulation->report.iteration_seconds());
  }
  return seconds;
}

TEST(Sensitivity, AnotherPlanIsFastestAtTheFactorAndNotBefore) {
  const SearchResult result = SmallSearch();
  ASSERT_GT(result.plans.size(), 1);
  ASSERT_FALSE(result.sensitivities.empty());
  int changes = 0;
  for (const Sensitivity& of : result.sensitivities) {
    for (const auto& [factor, plan, end] : {std::make_tuple(of.lower, of.lower_plan, 1 / kFactors[3]),
                                            std::make_tuple(of.upper, of.upper_plan, kFactors[3])}) {
      if (factor == 0) {
        const std::vector<double> seconds = SecondsWith(result, of.figure, end);
        EXPECT_EQ(*std::min_element(seconds.begin(), seconds.end()), seconds[0]) << of.figure << " " << end;
        continue;
      }
      ++changes;
      ASSERT_LT(plan, result.plans.size());
      const std::vector<double> seconds = SecondsWith(result, of.figure, factor);
      EXPECT_EQ(*std::min_element(seconds.begin(), seconds.end()), seconds[plan]) << of.figure << " " << factor;
      EXPECT_LT(seconds[plan], seconds[0]) << of.figure << " " << factor;
    }
  }
  // The case is one in which the figures matter.
  EXPECT_GT(changes, 0);
}

TEST(Sensitivity, OnePlanHasNone) {
  SearchResult result = SmallSearch();
  result.plans.resize(1);
  const ModelGraph model = *LoadModel("gpt2-tiny");
  const Cluster cluster = *LoadCluster("dgx-a100-80g");
  const SearchContext context = {.model = model, .cluster = cluster, .cost = "roofline", .network = "analytic"};
  EXPECT_TRUE(FindSensitivities(context, result.plans, nullptr).empty());
}

}  // namespace
}  // namespace weft::planner
