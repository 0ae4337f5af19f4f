#include "planner/resolve_reshard.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile_testing.h"
#include "compiler/lower_program.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/plan_figures_testing.h"
#include "verifier/verify.h"

namespace weft::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

PlanInputs Inputs(const std::string& zero, int data = 4) {
  // On this cluster, gathers take about as long as the computation beside them.
  Cluster cluster = TinyCluster();
  cluster.mutable_intra_node()->set_bytes_per_second(1e9);
  auto inputs = ResolveInputs(TinyGpt2(3), Parse<Recipe>("sequence_length: 16 global_batch_sequences: 16"),
                              Parse<Plan>(absl::StrCat("mesh { axes { name: 'data' size: ", data,
                                                       " } axes { name: 'pipe' size: 2 } } zero { ", zero, " }")),
                              cluster, nullptr);
  EXPECT_TRUE(inputs.ok()) << inputs.status();
  return inputs.ok() ? *std::move(inputs) : PlanInputs();
}

Program ProgramOf(const PlanInputs& inputs, bool evaluation = true) {
  auto program = LowerPlan(inputs, *CostsOf(inputs), evaluation, nullptr, nullptr);
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return {};
  EXPECT_TRUE(VerifyProgram(*program).ok()) << VerifyProgram(*program);
  return *std::move(program);
}

PlanInputs With(const PlanInputs& inputs, const std::string& zero) {
  PlanInputs other = inputs;
  *other.plan.mutable_zero() = Parse<Zero>(zero);
  return other;
}

TEST(ResolveReshard, KeepsChoicesOfTheUser) {
  for (const char* zero :
       {"", "stage: 2", "stage: 3", "stage: 3 reshard: NEVER", "stage: 3 reshard: LAYERS kept_layers: [1, 2]"}) {
    PlanInputs inputs = Inputs(zero);
    const std::string before = inputs.plan.DebugString();
    std::vector<std::string> notes;
    EXPECT_TRUE(ResolveReshard(inputs, *CostsOf(inputs), true, &notes).ok());
    EXPECT_EQ(inputs.plan.DebugString(), before);
    EXPECT_THAT(notes, IsEmpty());
  }
}

TEST(ResolveReshard, OverOneReplicaThereIsNothingToGather) {
  PlanInputs inputs = Inputs("stage: 3 reshard: BY_BENEFIT", /*data=*/1);
  std::vector<std::string> notes;
  EXPECT_TRUE(ResolveReshard(inputs, *CostsOf(inputs), true, &notes).ok());
  EXPECT_EQ(inputs.plan.zero().reshard(), Zero::AFTER_FORWARD);
  EXPECT_THAT(notes, IsEmpty());
}

// If everything fits, the choice is as fast as any other. If nothing fits, it takes no more memory than any other.
TEST(ResolveReshard, AsFastAsMemoryAllows) {
  const PlanInputs asked = Inputs("stage: 3 reshard: BY_BENEFIT");
  PlanInputs inputs = asked;
  std::vector<std::string> notes;
  ASSERT_TRUE(ResolveReshard(inputs, *CostsOf(inputs), true, &notes).ok());
  EXPECT_NE(inputs.plan.zero().reshard(), Zero::BY_BENEFIT);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("plan.zero.reshard")));
  // The partition is fixed, so that candidates differ only in resharding.
  EXPECT_EQ(inputs.plan.partition().layers_per_stage_size(), 2);
  const double chosen = SecondsOf(ProgramOf(inputs), inputs.cluster);
  const std::string others[] = {"stage: 3 reshard: AFTER_FORWARD", "stage: 3 reshard: AFTER_BACKWARD",
                                "stage: 3 reshard: NEVER", "stage: 3 reshard: LAYERS kept_layers: [1]",
                                "stage: 3 reshard: LAYERS kept_layers: [0, 1, 2, 3, 4]"};
  int64_t lowest = HighestArena(ProgramOf(inputs));
  for (const std::string& zero : others) {
    const PlanInputs other = With(inputs, zero);
    EXPECT_LE(chosen, SecondsOf(ProgramOf(other), other.cluster)) << zero;
    lowest = std::min(lowest, HighestArena(ProgramOf(other)));
  }
  PlanInputs tight = asked;
  tight.cluster.mutable_device()->set_memory_bytes(tight.cluster.device().reserved_bytes() + 1);
  ASSERT_TRUE(ResolveReshard(tight, *CostsOf(tight), true, nullptr).ok());
  EXPECT_LE(HighestArena(ProgramOf(tight)), lowest);
}

// If the program has an evaluation, the memory of the evaluation counts.
TEST(ResolveReshard, HoldsForTheProgramThatIsAskedFor) {
  for (const bool evaluation : {false, true}) {
    PlanInputs inputs = Inputs("stage: 3 reshard: BY_BENEFIT prefetch: 0");
    ASSERT_TRUE(ResolveReshard(inputs, *CostsOf(inputs), evaluation, nullptr).ok());
    EXPECT_EQ(inputs.plan.zero().stage(), 3);
    EXPECT_EQ(inputs.plan.zero().prefetch(), 0);
    EXPECT_EQ(ProgramOf(inputs, evaluation).has_evaluation(), evaluation);
  }
}

}  // namespace
}  // namespace weft::planner
