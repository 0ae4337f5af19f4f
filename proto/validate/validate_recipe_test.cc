#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/validate/validate.h"
#include "proto/validate/validate_test_util.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

const char kRecipe[] = R"(
  sequence_length: 128 global_batch_sequences: 16 microbatch_sequences: 2
  adamw { overrides { pattern: "*.bias" } }
)";

TEST(ValidateRecipe, FillsDefaults) {
  Recipe recipe;
  recipe.set_sequence_length(8);
  recipe.set_global_batch_sequences(4);
  ASSERT_TRUE(ValidateAndResolve(&recipe).ok());
  const Recipe expected = Parse<Recipe>(R"(
    sequence_length: 8 global_batch_sequences: 4 microbatch_sequences: 1 steps: 1
    adamw { beta1: 0.9 beta2: 0.95 epsilon: 1e-8 weight_decay: 0.1 } lr { peak: 3e-4 decay: "constant" } clip_norm: 1
  )");
  EXPECT_EQ(recipe.DebugString(), expected.DebugString());
  // Resolving a resolved recipe changes nothing.
  ASSERT_TRUE(ValidateAndResolve(&recipe).ok());
  EXPECT_EQ(recipe.DebugString(), expected.DebugString());
}

TEST(ValidateRecipe, KeepsWhatIsGiven) {
  const std::string text = R"(
    sequence_length: 8 global_batch_sequences: 4 microbatch_sequences: 2 steps: 7 seed: 3 init { normal: 0 }
    sgd { momentum: 0.9 weight_decay: 0.5 } lr { peak: 0 warmup_steps: 100 decay: "cosine" } clip_norm: 0 dropout: 0
  )";
  Recipe recipe = Parse<Recipe>(text);
  ASSERT_TRUE(ValidateAndResolve(&recipe).ok());
  EXPECT_EQ(recipe.DebugString(), Parse<Recipe>(text).DebugString());
}

TEST(ValidateRecipe, RefusesEveryBadField) {
  const std::vector<Bad> table = {
      {"sequence_length", "sequence_length: 0", "recipe.sequence_length is missing or 0; it is required"},
      {"sequence_length", "sequence_length: -1", "recipe.sequence_length = -1 must be at least 1"},
      {"sequence_length", "sequence_length: 9223372036854775807", "recipe.sequence_length = 9223372036854775807"},
      {"global_batch_sequences", "global_batch_sequences: 0", "recipe.global_batch_sequences is missing"},
      {"global_batch_sequences", "global_batch_sequences: -5", "recipe.global_batch_sequences = -5 must be at least 1"},
      {"global_batch_sequences", "global_batch_sequences: 3000000000", "must be at most 2147483647"},
      {"microbatch_sequences", "microbatch_sequences: -2", "recipe.microbatch_sequences = -2 must be at least 1"},
      {"microbatch_sequences", "microbatch_sequences: 17", "recipe.microbatch_sequences = 17 must be at most 16"},
      {"microbatch_sequences", "sequence_length: 16777216 global_batch_sequences: 200 microbatch_sequences: 200",
       "recipe.microbatch_sequences * recipe.sequence_length = 3355443200 must be at most"},
      {"steps", "steps: -1", "recipe.steps = -1 must be at least 1"},
      {"steps", "steps: 9223372036854775807", "recipe.steps * recipe.global_batch_sequences"},
      {"steps", "steps: 100000000000000000", "tokens of the run"},
      {"init.normal", "init { normal: -0.1 }", "recipe.init.normal = -0.1 must be from 0 to 1e30"},
      {"init.normal", "init { normal: 1e308 }", "recipe.init.normal = 1e+308 must be from 0 to 1e30"},
      {"init.normal", "init { normal: nan }", "recipe.init.normal = nan must be"},
      {"adamw.beta1", "adamw { beta1: 1 }", "recipe.adamw.beta1 = 1 must be at least 0 and less than 1"},
      {"adamw.beta1", "adamw { beta1: nan }", "recipe.adamw.beta1 = nan"},
      {"adamw.beta2", "adamw { beta2: -0.5 }", "recipe.adamw.beta2 = -0.5"},
      {"adamw.epsilon", "adamw { epsilon: 0 }", "recipe.adamw.epsilon = 0 must be finite and greater than 0"},
      {"adamw.epsilon", "adamw { epsilon: inf }", "recipe.adamw.epsilon = inf"},
      {"adamw.weight_decay", "adamw { weight_decay: -1 }", "recipe.adamw.weight_decay = -1"},
      {"adamw.overrides.pattern", "adamw { overrides { weight_decay: 1 } }", "recipe.adamw.overrides[1].pattern"},
      {"adamw.overrides.weight_decay", "adamw { overrides { pattern: \"*\" weight_decay: -1 } }",
       "recipe.adamw.overrides[1].weight_decay = -1"},
      {"sgd.momentum", "sgd { momentum: 1.5 }", "recipe.sgd.momentum = 1.5"},
      {"sgd.weight_decay", "sgd { weight_decay: nan }", "recipe.sgd.weight_decay = nan"},
      {"lr.peak", "lr { peak: -1e-3 }", "recipe.lr.peak = -0.001"},
      {"lr.peak", "lr { peak: inf }", "recipe.lr.peak = inf"},
      {"lr.warmup_steps", "lr { warmup_steps: -3 }", "recipe.lr.warmup_steps = -3 must be at least 0"},
      {"lr.stable_steps", "lr { decay: \"linear\" stable_steps: -1 }",
       "recipe.lr.stable_steps = -1 must be at least 0"},
      {"lr.stable_steps", "lr { stable_steps: 2 }", "has no effect with recipe.lr.decay = 'constant'"},
      {"lr.stable_steps", "steps: 100 lr { decay: \"linear\" warmup_steps: 10 stable_steps: 89 }",
       "recipe.lr.stable_steps = 89 must be at most 88, so that two steps of recipe.steps = 100"},
      {"lr.decay", "lr { decay: \"cosin\" }", "recipe.lr.decay = 'cosin' is unknown; nearest: 'cosine'; known: "},
      {"lr.min", "lr { decay: \"linear\" min: -1 }", "recipe.lr.min = -1 must be"},
      {"lr.min", "lr { decay: \"linear\" min: 1 }", "recipe.lr.min = 1 must be at most recipe.lr.peak = 0.0003"},
      {"lr.min", "lr { min: 1e-5 }", "has no effect with recipe.lr.decay = 'constant'"},
      {"clip_norm", "clip_norm: -1", "recipe.clip_norm = -1"},
      {"clip_norm", "clip_norm: nan", "recipe.clip_norm = nan"},
      {"weight_rounding", "weight_rounding: 7",
       "recipe.weight_rounding = 7 is unknown; allowed: NEAREST or STOCHASTIC"},
      {"dropout", "dropout: 1", "recipe.dropout = 1 must be at least 0 and less than 1"},
  };
  CheckTable<Recipe>(Parse<Recipe>(kRecipe), table, {"seed"}, [](Recipe* r) { return ValidateAndResolve(r); });
}

TEST(MicrobatchesPerReplica, DividesOrNamesNeighbors) {
  Recipe recipe = Parse<Recipe>(kRecipe);
  ASSERT_TRUE(ValidateAndResolve(&recipe).ok());
  const Mesh mesh = Parse<Mesh>("axes { name: \"data\" size: 4 } axes { name: \"pipe\" size: 3 }");
  EXPECT_EQ(*MicrobatchesPerReplica(recipe, mesh), 2);
  EXPECT_EQ(*MicrobatchesPerReplica(recipe, Mesh()), 8);
  recipe.set_global_batch_sequences(18);
  EXPECT_EQ(std::string(MicrobatchesPerReplica(recipe, mesh).status().message()),
            "recipe.global_batch_sequences = 18 must be a multiple of recipe.microbatch_sequences * data = 2 * 4 = 8; "
            "nearest valid: 16, 24");
  recipe.set_global_batch_sequences(2);
  EXPECT_THAT(std::string(MicrobatchesPerReplica(recipe, mesh).status().message()), HasSubstr("nearest valid: 8"));
}

TEST(ValidateTogether, SequenceMustBeThePixels) {
  const ModelGraph graph = Parse<ModelGraph>("name: 'u' image_size: 4");
  Recipe recipe;
  recipe.set_sequence_length(16);
  EXPECT_TRUE(ValidateTogether(recipe, graph).ok());
  recipe.set_sequence_length(4);
  EXPECT_EQ(std::string(ValidateTogether(recipe, graph).message()),
            "recipe.sequence_length = 4 must be 16: a sample of model 'u' is an image of 4 x 4 pixels");
  recipe.clear_sequence_length();
  EXPECT_EQ(std::string(ValidateTogether(recipe, graph).message()),
            "recipe.sequence_length is missing or 0; it must be 16: a sample of model 'u' is an image of 4 x 4 pixels");
}

TEST(ValidateTogether, SequenceMustFitTheModel) {
  const ModelGraph graph = Parse<ModelGraph>("name: 'm' maximum_positions: 16");
  Recipe recipe;
  recipe.set_sequence_length(16);
  EXPECT_TRUE(ValidateTogether(recipe, graph).ok());
  recipe.set_sequence_length(17);
  EXPECT_EQ(std::string(ValidateTogether(recipe, graph).message()),
            "recipe.sequence_length = 17 must be at most 16, the maximum_positions of model 'm'");
}

}  // namespace
}  // namespace weft
