#include "planner/search/sensitivity.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "catalog/load.h"
#include "compiler/models/load_model.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "planner/search/try_candidate.h"
#include "proto/validate/validate.h"
#include "simulator/simulate.h"
#include "simulator/what_if.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

// Two plans: replicas on two nodes, whose gradients cross between the nodes, and a pipeline over two nodes, whose
// gradients do not.
struct Plans {
  ModelGraph model = *LoadModel("gpt2");
  Cluster cluster = *LoadCluster("dgx-a100-80g");
  SearchContext context = {
      .model = model, .cluster = cluster, .cost = "roofline", .network = "analytic", .capacity = int64_t{70} << 30};
  std::vector<FoundPlan> found;

  // `nic`: the bandwidth between nodes, relative to the catalog's.
  explicit Plans(double nic) {
    cluster.mutable_inter_node()->set_bytes_per_second(nic * cluster.inter_node().bytes_per_second());
    for (const char* plan : {"mesh { axes { name: 'data' size: 16 } }",
                             "mesh { axes { name: 'data' size: 8 } axes { name: 'pipe' size: 2 } }"}) {
      FoundPlan start = {.settings = plan};
      start.recipe.set_sequence_length(1024);
      start.recipe.set_global_batch_sequences(64);
      EXPECT_TRUE(ValidateAndResolve(&start.recipe).ok());
      start.plan = Parse<Plan>(plan);
      TriedPlan tried = TryAsItIs(context, std::move(start));
      EXPECT_TRUE(tried.status.ok()) << tried.status;
      found.push_back(std::move(tried.found));
    }
    if (found[1].report.iteration_seconds() < found[0].report.iteration_seconds()) std::swap(found[0], found[1]);
  }
};

// Compiles and simulates every plan anew on the changed cluster.
std::vector<double> SecondsWith(const Plans& plans, const std::string& figure, double factor) {
  const Cluster changed = *sim::ChangedCluster(plans.cluster, {{.name = figure, .factor = factor, .text = ""}});
  std::vector<double> seconds;
  for (const FoundPlan& plan : plans.found) {
    CompileOptions compile;
    compile.cost = "roofline";
    const auto program = CompilePlan(plans.model, plan.recipe, plan.plan, plans.cluster, compile);
    EXPECT_TRUE(program.ok()) << program.status();
    const auto simulation = sim::Simulate(*program, changed, {.cost = "roofline"});
    EXPECT_TRUE(simulation.ok()) << simulation.status();
    seconds.push_back(simulation->report.iteration_seconds());
  }
  return seconds;
}

TEST(Sensitivity, AnotherPlanIsFastestAtTheFactorAndNotBefore) {
  int changes = 0;
  // Replicas are faster on a fast network, the pipeline on a slow one: the order changes between two of these.
  for (const double nic : {16.0, 4.0, 1.0, 0.25}) {
    const Plans plans(nic);
    const std::vector<Sensitivity> found = FindSensitivities(plans.context, plans.found, nullptr);
    ASSERT_FALSE(found.empty());
    for (const Sensitivity& of : found) {
      for (const auto& [factor, plan, end] : {std::make_tuple(of.lower, of.lower_plan, 1 / kMaxFactor),
                                              std::make_tuple(of.upper, of.upper_plan, kMaxFactor)}) {
        const std::vector<double> seconds = SecondsWith(plans, of.figure, factor == 0 ? end : factor);
        EXPECT_EQ(*std::min_element(seconds.begin(), seconds.end()), seconds[plan]) << of.figure << " " << factor;
        if (factor == 0) continue;
        ++changes;
        EXPECT_LT(seconds[plan], seconds[0]) << of.figure << " " << factor;
        // At a factor somewhat nearer to 1, the first plan is still the fastest.
        const std::vector<double> nearer = SecondsWith(plans, of.figure, factor < 1 ? factor * 1.1 : factor / 1.1);
        EXPECT_LE(nearer[0], nearer[plan]) << of.figure << " " << factor;
      }
    }
  }
  EXPECT_GT(changes, 0);
}

TEST(Sensitivity, OnePlanHasNone) {
  Plans plans(1);
  plans.found.resize(1);
  EXPECT_TRUE(FindSensitivities(plans.context, plans.found, nullptr).empty());
}

}  // namespace
}  // namespace weft::planner
