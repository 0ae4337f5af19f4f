// The example of docs/planning.md: a node of A100 and a node of H100, docs/a100-h100.textproto.
#include <cstdlib>
#include <string>
#include <vector>

#include "catalog/load.h"
#include "compiler/models/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/evaluate.h"
#include "proto/io/io.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

using testing::ElementsAre;

Cluster MixedCluster() {
  const std::string root = std::string(std::getenv("TEST_SRCDIR")) + "/" + std::getenv("TEST_WORKSPACE");
  const auto cluster = ReadMessage<Cluster>(root + "/docs/a100-h100.textproto");
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  return *cluster;
}

// Llama-3.1 8B in two stages of eight replicas each: the first on the A100, the second on the H100.
Evaluation RunPlan(const Cluster& cluster, const std::vector<int32_t>& layers_per_stage) {
  const Recipe recipe = Parse<Recipe>("sequence_length: 4096 global_batch_sequences: 128 microbatch_sequences: 1");
  Plan plan = Parse<Plan>(
      "mesh { axes { name: 'data' size: 8 } axes { name: 'pipe' size: 2 } } zero { stage: 1 } "
      "recompute { mode: FULL }");
  plan.mutable_partition()->mutable_layers_per_stage()->Assign(layers_per_stage.begin(), layers_per_stage.end());
  auto inputs = ResolveInputs(*LoadModel("llama-3.1-8b"), recipe, plan, cluster, /*notes=*/nullptr);
  EXPECT_TRUE(inputs.ok()) << inputs.status();
  inputs->cost = "tiles";
  inputs->quick_arenas = true;
  auto made = Evaluate({.inputs = *inputs});
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

TEST(MixedExample, TheCutFollowsTheDevices) {
  const Cluster cluster = MixedCluster();
  Cluster of_a100 = cluster;
  of_a100.clear_other_devices();
  const std::vector<int32_t> cut_for_a100 = RunPlan(of_a100, {}).layers_per_stage;
  EXPECT_THAT(cut_for_a100, ElementsAre(18, 16));
  const double seconds_of_cut_for_a100 = RunPlan(cluster, cut_for_a100).report.iteration_seconds();
  const Evaluation mixed = RunPlan(cluster, {});
  EXPECT_THAT(mixed.layers_per_stage, ElementsAre(10, 24));
  const double seconds = mixed.report.iteration_seconds();
  EXPECT_LT(seconds, 0.6 * seconds_of_cut_for_a100);
  // No other cut is faster.
  for (const int32_t first : {9, 11}) {
    EXPECT_GT(RunPlan(cluster, {first, 34 - first}).report.iteration_seconds(), seconds);
  }
}

// The devices are those of the catalog.
TEST(MixedExample, HasTheFiguresOfTheCatalog) {
  const Cluster cluster = MixedCluster();
  EXPECT_EQ(cluster.device().DebugString(), LoadCluster("dgx-a100-80g")->device().DebugString());
  EXPECT_EQ(cluster.other_devices(0).device().DebugString(), LoadCluster("dgx-h100")->device().DebugString());
}

}  // namespace
}  // namespace weft::planner
