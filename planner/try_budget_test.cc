#include "planner/try_budget.h"

#include "gtest/gtest.h"

namespace weft::planner {
namespace {

// Returns a program whose work consists of actions and steps, half each.
Program ProgramOf(int work) {
  Program program;
  Template& t = *program.add_templates();
  t.add_prologue();
  t.add_epilogue();
  for (int i = 2; i < work / 2; ++i) t.add_body();
  program.add_segments();
  for (int i = 0; i < work / 2; ++i) program.add_segments()->add_steps();
  return program;
}

Recompute Mode(Recompute::Mode mode, int interval = 0) {
  Recompute recompute;
  recompute.set_mode(mode);
  recompute.set_interval(interval);
  return recompute;
}

int TriesOf(TryBudget budget, const Recompute& recompute) {
  int tries = 0;
  for (; budget.Has(recompute); ++tries) budget.Spend(recompute);
  return tries;
}

TEST(TryBudget, BoundsTheWorkOfAllTries) {
  for (const Recompute& once : {Mode(Recompute::NONE), Mode(Recompute::FULL), Mode(Recompute::INTERVAL, 2)}) {
    EXPECT_EQ(TriesOf(TryBudget(ProgramOf(1000), 8), once), 40);
    EXPECT_EQ(TriesOf(TryBudget(ProgramOf(1002), 8), once), 39);
    EXPECT_EQ(TriesOf(TryBudget(ProgramOf(20000), 8), once), 2);
    // One try is always allowed. A second is allowed if one program is within the limit.
    EXPECT_EQ(TriesOf(TryBudget(ProgramOf(20002), 8), once), 2);
    EXPECT_EQ(TriesOf(TryBudget(ProgramOf(40000), 8), once), 2);
    EXPECT_EQ(TriesOf(TryBudget(ProgramOf(40002), 8), once), 1);
    EXPECT_EQ(TriesOf(TryBudget(ProgramOf(100000), 8), once), 1);
  }
}

TEST(TryBudget, ChoicesTakeManyCompilations) {
  // INTERVAL takes one compilation per layer plus one. FIT takes one with nothing recomputed, one with all, a binary
  // search, and one with the choice.
  EXPECT_EQ(TriesOf(TryBudget(ProgramOf(1000), 39), Mode(Recompute::INTERVAL)), 1);
  EXPECT_EQ(TriesOf(TryBudget(ProgramOf(1000), 40), Mode(Recompute::INTERVAL)), 0);
  EXPECT_EQ(TriesOf(TryBudget(ProgramOf(1000), 64), Mode(Recompute::FIT)), 4);
  EXPECT_EQ(TriesOf(TryBudget(ProgramOf(4002), 64), Mode(Recompute::FIT)), 0);
}

TEST(TryBudget, SpentTriesAreGone) {
  TryBudget budget(ProgramOf(30000), 8);
  EXPECT_TRUE(budget.Has(Mode(Recompute::FULL)));
  EXPECT_FALSE(budget.Has(Mode(Recompute::FIT)));
  budget.Spend(Mode(Recompute::FULL));
  EXPECT_TRUE(budget.Has(Mode(Recompute::FULL)));
  EXPECT_FALSE(budget.Has(Mode(Recompute::FIT)));
  budget.Spend(Mode(Recompute::FULL));
  EXPECT_FALSE(budget.Has(Mode(Recompute::FULL)));
}

// If the ranks of some replicas are used for other axes, each remaining replica gets more microbatches.
TEST(TryBudget, MicrobatchesAreThoseOfAReplica) {
  Recipe recipe;
  Plan plan;
  EXPECT_EQ(MicrobatchesOfAReplica(recipe, plan), 1);
  recipe.set_global_batch_sequences(4096);
  EXPECT_EQ(MicrobatchesOfAReplica(recipe, plan), 4096);
  recipe.set_microbatch_sequences(8);
  MeshAxis& data = *plan.mutable_mesh()->add_axes();
  data.set_name("data");
  data.set_size(64);
  EXPECT_EQ(MicrobatchesOfAReplica(recipe, plan), 8);
  data.set_size(8);
  recipe.set_microbatch_sequences(1);
  EXPECT_EQ(MicrobatchesOfAReplica(recipe, plan), 512);
  data.set_size(1 << 20);
  EXPECT_EQ(MicrobatchesOfAReplica(recipe, plan), 1);
}

// Up to kFewTimes as many microbatches count as no additional work. More microbatches do count.
TEST(TryBudget, ManyMicrobatchesAreManyActions) {
  const auto tries_of = [](int work, int64_t times) {
    TryBudget budget(ProgramOf(work), 8);
    int tries = 0;
    for (; budget.Has(Mode(Recompute::FULL), times); ++tries) budget.Spend(Mode(Recompute::FULL), times);
    return tries;
  };
  EXPECT_EQ(tries_of(1000, TryBudget::kFewTimes), 40);
  // Each multiple beyond kFewTimes adds 500 actions.
  EXPECT_EQ(tries_of(1000, TryBudget::kFewTimes + 2), 20);
  EXPECT_EQ(tries_of(1000, TryBudget::kFewTimes + 3), TryBudget::kFewTries);
  EXPECT_EQ(tries_of(1000, TryBudget::kFewTimes + 4), 0);
  EXPECT_EQ(tries_of(1000, int64_t{1} << 62), 0);
}

}  // namespace
}  // namespace weft::planner
