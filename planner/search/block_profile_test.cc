#include "planner/search/block_profile.h"

#include <cmath>
#include <string>

#include "catalog/load.h"
#include "compiler/models/load_model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "proto/validate/validate.h"
#include "simulator/simulate.h"
#include "tests/parse_text.h"

namespace weft::planner {
namespace {

Recipe MakeRecipe(int64_t microbatch, int64_t sequence = 512) {
  Recipe recipe;
  recipe.set_sequence_length(sequence);
  recipe.set_global_batch_sequences(microbatch);
  recipe.set_microbatch_sequences(microbatch);
  EXPECT_TRUE(ValidateAndResolve(&recipe).ok());
  return recipe;
}

BlockProfile ProfileOf(const std::string& model_name, const std::string& plan, bool split = false) {
  const ModelGraph model = *LoadModel(model_name);
  const Cluster cluster = *LoadCluster("dgx-a100-80g");
  const std::vector<LayerRun> runs = RunsOfLayers(model);
  const ShortModels models = ShortModelsOf(model, runs);
  const absl::StatusOr<BlockProfile> profile = ProfileBlocks({.models = models,
                                                              .runs = runs,
                                                              .recipe = MakeRecipe(2),
                                                              .plan = Parse<Plan>(plan),
                                                              .cluster = cluster,
                                                              .cost = "tiles",
                                                              .network = "analytic",
                                                              .split_backward = split});
  EXPECT_TRUE(profile.ok()) << profile.status();
  return *profile;
}

// A profile of few blocks agrees with the whole model, compiled and simulated.
TEST(BlockProfile, AgreesWithTheWholeModel) {
  for (const char* model : {"gpt2", "qwen2.5-1.5b"}) {
    for (const char* plan : {"", "recompute { mode: FULL }", "mesh { axes { name: 'x' size: 2 } }",
                             "mesh { axes { name: 'x' size: 2 } } sequence_parallel: true"}) {
      const BlockProfile profile = ProfileOf(model, plan);
      const LayerCosts all = profile.CostsOf(0, profile.layers(), /*sharded=*/false);
      CompileOptions compile;
      compile.cost = "tiles";
      const Cluster cluster = *LoadCluster("dgx-a100-80g");
      const absl::StatusOr<Program> program =
          CompilePlan(*LoadModel(model), MakeRecipe(2), Parse<Plan>(plan), cluster, compile);
      ASSERT_TRUE(program.ok()) << program.status();
      const absl::StatusOr<sim::Simulation> simulation = sim::Simulate(*program, cluster, {.cost = "tiles"});
      ASSERT_TRUE(simulation.ok()) << simulation.status();
      const double seconds = static_cast<double>(all.forward + all.backward + all.step) * 1e-12;
      EXPECT_NEAR(seconds, simulation->report.iteration_seconds(), 0.03 * seconds) << model << " " << plan;
      int64_t states = 0, saved = 0;
      for (const Buffer& buffer : program->templates(0).buffers()) {
        if (buffer.persistent() && buffer.class_() != COMMUNICATION) states += buffer.bytes();
        if (buffer.class_() == SAVED_ACTIVATION) saved += buffer.bytes();
      }
      EXPECT_EQ(all.parameter_bytes + all.gradient_bytes + all.optimizer_bytes, states) << model << " " << plan;
      EXPECT_NEAR(static_cast<double>(all.saved_bytes), static_cast<double>(saved), 0.05 * static_cast<double>(saved))
          << model << " " << plan;
    }
  }
}

// A framework casts weights to 8 bits once per optimizer step, for all its microbatches.
TEST(BlockProfile, OnlyTheFirstForwardCastsWeights) {
  const ModelGraph model = *LoadModel("gpt2");
  const Cluster cluster = *LoadCluster("dgx-h100");
  const Runtime runtime = *LoadRuntime("nemo-fp8");
  const Plan plan = Parse<Plan>("precision { grads: BF16 reduce: BF16 }");
  const std::vector<LayerRun> runs = RunsOfLayers(model);
  const ShortModels models = ShortModelsOf(model, runs);
  const absl::StatusOr<BlockProfile> profile = ProfileBlocks({.models = models,
                                                              .runs = runs,
                                                              .recipe = MakeRecipe(2),
                                                              .plan = plan,
                                                              .cluster = cluster,
                                                              .cost = "tiles",
                                                              .network = "analytic",
                                                              .runtime = &runtime});
  ASSERT_TRUE(profile.ok()) << profile.status();
  const LayerCosts all = profile->CostsOf(0, profile->layers(), /*sharded=*/false);
  Runtime without_host = runtime;
  without_host.clear_host();
  const auto simulated = [&](int64_t microbatches) {
    Recipe recipe = MakeRecipe(2);
    recipe.set_global_batch_sequences(2 * microbatches);
    CompileOptions compile;
    compile.cost = "tiles";
    const absl::StatusOr<Program> program = CompilePlan(model, recipe, plan, cluster, compile);
    EXPECT_TRUE(program.ok()) << program.status();
    return sim::Simulate(*program, cluster, {.cost = "tiles", .runtime = &without_host})->report.iteration_seconds();
  };
  const double first = simulated(1), further = (simulated(3) - first) / 2;
  EXPECT_GT(all.first_forward, 0);
  EXPECT_NEAR(static_cast<double>(all.forward + all.backward) * 1e-12, further, 0.002 * further);
  EXPECT_NEAR(static_cast<double>(all.forward + all.backward + all.step + all.first_forward) * 1e-12, first,
              0.02 * first);
}

// The loss of this framework runs in tiles, and so do the products of an MLP.
TEST(BlockProfile, KnowsWhatTilesSave) {
  const ModelGraph model = *LoadModel("llama-tiny");
  const Cluster cluster = *LoadCluster("dgx-a100-80g");
  const Runtime runtime = *LoadRuntime("transformers");
  const std::vector<LayerRun> runs = RunsOfLayers(model);
  const ShortModels models = ShortModelsOf(model, runs);
  const absl::StatusOr<BlockProfile> profile = ProfileBlocks({.models = models,
                                                              .runs = runs,
                                                              .recipe = MakeRecipe(2, 128),
                                                              .plan = {},
                                                              .cluster = cluster,
                                                              .cost = "tiles",
                                                              .network = "analytic",
                                                              .runtime = &runtime});
  ASSERT_TRUE(profile.ok()) << profile.status();
  // 6 bytes for each value between the products of an MLP, and 2 for each logit.
  constexpr int64_t kRows = 2 * 128, kInner = 176, kVocabulary = 256;
  std::vector<int64_t> tiled;
  for (const RunCosts& run : profile->runs) tiled.push_back(run.tiled_bytes);
  EXPECT_THAT(tiled, testing::ElementsAre(0, 6 * kInner * kRows, 2 * kVocabulary * kRows));
  const BlockProfile part = PartOf(*profile, 2);
  EXPECT_EQ(part.runs[1].tiled_bytes, tiled[1] / 2);
}

TEST(BlockProfile, HalvesOfABackwardAddUp) {
  const BlockProfile profile = ProfileOf("gpt2", "", /*split=*/true);
  const LayerCosts all = profile.CostsOf(0, profile.layers(), false);
  EXPECT_GT(all.backward_input, 0);
  EXPECT_GT(all.backward_weight, 0);
  EXPECT_NEAR(static_cast<double>(all.backward_input + all.backward_weight), static_cast<double>(all.backward),
              0.05 * static_cast<double>(all.backward));
  EXPECT_GT(all.saved_gradient_bytes, 0);
}

TEST(BlockProfile, AStageCostsTheSumOfItsLayers) {
  const BlockProfile profile = ProfileOf("gpt2", "");
  const LayerCosts three = profile.CostsOf(2, 5, false), six = profile.CostsOf(2, 8, false);
  const LayerCosts one = profile.CostsOf(2, 3, false);
  EXPECT_EQ(six.forward - three.forward, 3 * (three.forward - one.forward) / 2);
  EXPECT_EQ(six.parameter_bytes, 2 * three.parameter_bytes);
}

TEST(BlockProfile, TheKeyLeavesOutWhatDoesNotMatter) {
  const auto key = [&](const std::string& plan) { return ConfigurationKey(Parse<Plan>(plan)); };
  EXPECT_EQ(
      key("mesh { axes { name: 'x' size: 2 } axes { name: 'pipe' size: 4 } axes { name: 'data' size: 8 } } zero { "
          "stage: 3 } schedule { name: 'zb-h1' } recompute { mode: FIT }"),
      key("mesh { axes { name: 'x' size: 2 } } recompute {}"));
  EXPECT_NE(key("mesh { axes { name: 'x' size: 2 } }"), key("mesh { axes { name: 'x' size: 4 } }"));
  EXPECT_NE(key("recompute { mode: FULL }"), key("recompute {}"));
}

}  // namespace
}  // namespace weft::planner
