#include "executor/numerics/learning_rate.h"

#include "gtest/gtest.h"

namespace weft::exec {
namespace {

Recipe MakeRecipe(int64_t steps, int64_t warmup, const char* decay) {
  Recipe recipe;
  recipe.set_steps(steps);
  recipe.mutable_lr()->set_peak(1.0);
  recipe.mutable_lr()->set_min(0.1);
  recipe.mutable_lr()->set_warmup_steps(warmup);
  recipe.mutable_lr()->set_decay(decay);
  return recipe;
}

TEST(LearningRateTest, DefaultsToAConstant) {
  Recipe recipe;
  EXPECT_EQ(LearningRateAt(recipe, 0), 3e-4);
  EXPECT_EQ(LearningRateAt(recipe, 1000), 3e-4);
}

TEST(LearningRateTest, WarmsUpLinearly) {
  const Recipe recipe = MakeRecipe(100, 4, "constant");
  EXPECT_EQ(LearningRateAt(recipe, 0), 0.25);
  EXPECT_EQ(LearningRateAt(recipe, 3), 1.0);
  EXPECT_EQ(LearningRateAt(recipe, 99), 1.0);
}

TEST(LearningRateTest, LinearAndCosineEndAtTheMinimum) {
  for (const char* decay : {"linear", "cosine"}) {
    const Recipe recipe = MakeRecipe(15, 4, decay);
    EXPECT_EQ(LearningRateAt(recipe, 4), 1.0) << decay;
    EXPECT_NEAR(LearningRateAt(recipe, 9), 0.55, 1e-12) << decay;
    EXPECT_NEAR(LearningRateAt(recipe, 14), 0.1, 1e-12) << decay;
    EXPECT_EQ(LearningRateAt(recipe, 50), LearningRateAt(recipe, 14)) << decay;
  }
  EXPECT_GT(LearningRateAt(MakeRecipe(15, 4, "cosine"), 6), LearningRateAt(MakeRecipe(15, 4, "linear"), 6));
}

TEST(LearningRateTest, StableStepsComeBeforeTheDecay) {
  Recipe recipe = MakeRecipe(25, 4, "linear");
  recipe.mutable_lr()->set_stable_steps(10);
  EXPECT_EQ(LearningRateAt(recipe, 3), 1.0);
  EXPECT_EQ(LearningRateAt(recipe, 13), 1.0);
  // From here on the rates are those of a run without stable steps that begins ten steps later.
  for (int64_t step = 14; step < 30; ++step) {
    EXPECT_EQ(LearningRateAt(recipe, step), LearningRateAt(MakeRecipe(15, 4, "linear"), step - 10)) << step;
  }
  recipe.mutable_lr()->set_stable_steps(25);
  EXPECT_EQ(LearningRateAt(recipe, 24), 1.0);
  recipe.mutable_lr()->set_stable_steps(int64_t{1} << 62);
  EXPECT_EQ(LearningRateAt(recipe, 24), 1.0);
}

TEST(LearningRateTest, AWarmupAsLongAsTheRunHasNoDecay) {
  EXPECT_EQ(LearningRateAt(MakeRecipe(4, 4, "linear"), 3), 1.0);
  EXPECT_EQ(LearningRateAt(MakeRecipe(5, 4, "linear"), 4), 1.0);
  EXPECT_EQ(LearningRateAt(MakeRecipe(1, 0, "cosine"), 0), 1.0);
}

TEST(LearningRateTest, StepsBeyondADecayAreNoted) {
  EXPECT_EQ(NoteOnSteps(MakeRecipe(10, 2, "cosine"), 15),
            "note: --steps 15 is more than the recipe's 10, where the learning rate's cosine decay ends; after that it "
            "stays at its minimum, 0.1; to decay over all steps, compile with recipe.steps: 15");
  EXPECT_NE(NoteOnSteps(MakeRecipe(10, 2, "linear"), 11), "");
  EXPECT_EQ(NoteOnSteps(MakeRecipe(10, 2, "cosine"), 10), "");
  EXPECT_EQ(NoteOnSteps(MakeRecipe(10, 2, "cosine"), 0), "");
  EXPECT_EQ(NoteOnSteps(MakeRecipe(10, 2, "constant"), 15), "");
  EXPECT_EQ(NoteOnSteps(Recipe(), 15), "");
}

}  // namespace
}  // namespace weft::exec
