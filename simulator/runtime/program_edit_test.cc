#include "simulator/runtime/program_edit.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// b waits for a, and c waits for b.
Segment Chain() {
  return Parse<Segment>(R"(steps { name: "a" } steps { name: "b" deps: 0 } steps { name: "c" deps: 1 })");
}

JoiningStep Joining(const std::string& name, int behind, std::vector<int> deps = {}) {
  JoiningStep joining;
  joining.step.set_name(name);
  for (const int dep : deps) joining.step.add_deps(dep);
  joining.behind = behind;
  return joining;
}

std::vector<std::string> NamesOf(const Segment& segment) {
  std::vector<std::string> names;
  for (const Step& step : segment.steps()) names.push_back(step.name());
  return names;
}

TEST(ProgramEdit, StepsStandBehindTheirsAndDependenciesFollow) {
  Segment segment = Chain();
  // The list is not sorted by `behind`. Two steps behind the same step keep their order.
  Join({Joining("late", 2, {0, 2}), Joining("first", -1), Joining("y", 0, {0}), Joining("x", 0)}, &segment);
  EXPECT_THAT(NamesOf(segment), ElementsAre("first", "a", "y", "x", "b", "c", "late"));
  EXPECT_THAT(segment.steps(1).deps(), IsEmpty());
  EXPECT_THAT(segment.steps(2).deps(), ElementsAre(1));
  EXPECT_THAT(segment.steps(4).deps(), ElementsAre(1));
  EXPECT_THAT(segment.steps(5).deps(), ElementsAre(4));
  EXPECT_THAT(segment.steps(6).deps(), ElementsAre(1, 5));
}

TEST(ProgramEdit, JoiningStepsWaitForEachOtherAndAreWaitedFor) {
  Segment segment = Chain();
  JoiningStep gather = Joining("gather", -1), cast = Joining("cast", 0);
  cast.after = {0};
  cast.awaited_by = {1, 2};
  gather.awaited_by = {2};
  Join({gather, cast}, &segment);
  EXPECT_THAT(NamesOf(segment), ElementsAre("gather", "a", "cast", "b", "c"));
  EXPECT_THAT(segment.steps(2).deps(), ElementsAre(0));
  EXPECT_THAT(segment.steps(3).deps(), ElementsAre(1, 2));
  EXPECT_THAT(segment.steps(4).deps(), ElementsAre(3, 0, 2));
}

TEST(ProgramEdit, WhatStandsBehindAStepIsNotAwaitedByIt) {
  Segment segment = Chain();
  JoiningStep behind = Joining("behind", 1);
  behind.awaited_by = {0, 1, 2};
  Join({behind}, &segment);
  EXPECT_THAT(NamesOf(segment), ElementsAre("a", "b", "behind", "c"));
  EXPECT_THAT(segment.steps(0).deps(), IsEmpty());
  EXPECT_THAT(segment.steps(1).deps(), ElementsAre(0));
  EXPECT_THAT(segment.steps(3).deps(), ElementsAre(1, 2));
}

TEST(ProgramEdit, OfNothingNothingChanges) {
  Segment segment = Chain();
  Join({}, &segment);
  EXPECT_EQ(segment.SerializeAsString(), Chain().SerializeAsString());
}

TEST(ProgramEdit, ACollectiveActionBecomesAStep) {
  const Template t = Parse<Template>(R"(
    buffers { name: "part" bytes: 64 dtype: BF16 } buffers { name: "whole" bytes: 256 dtype: BF16 }
    buffers { name: "other" bytes: 8 dtype: FP32 })");
  const Action gather = Parse<Action>(R"(
    kind: ALL_GATHER name: "gather" purpose: GATHER_WEIGHTS algorithm: "ring" sources: 0 destinations: 1
    group { axes { axis: "z" } })");
  Action action = Parse<Action>("kind: FORWARD operands: [2, 1]");
  Segment segment = Parse<Segment>(R"(operands { name: "other" } operands { name: "whole" })");
  const Step step = StepOf(t, gather, &action, &segment);
  EXPECT_EQ(step.name(), "gather");
  EXPECT_EQ(step.kernel(), GROUP_ALL_GATHER);
  EXPECT_EQ(step.stream(), COLLECTIVE);
  EXPECT_EQ(step.collective().purpose(), GATHER_WEIGHTS);
  EXPECT_EQ(step.collective().algorithm(), "ring");
  EXPECT_EQ(step.collective().group().axes(0).axis(), "z");
  // The source becomes a new operand. The action already binds the destination.
  EXPECT_THAT(action.operands(), ElementsAre(2, 1, 0));
  ASSERT_EQ(segment.operands_size(), 3);
  EXPECT_EQ(segment.operands(2).name(), "part");
  EXPECT_EQ(segment.operands(2).bytes(), 64);
  EXPECT_EQ(segment.operands(2).access(), READ);
  ASSERT_EQ(segment.values_size(), 2);
  EXPECT_EQ(segment.values(step.inputs(0)).operand(), 2);
  EXPECT_THAT(segment.values(step.inputs(0)).shape(), ElementsAre(32));
  EXPECT_EQ(segment.values(step.outputs(0)).operand(), 1);
  EXPECT_THAT(segment.values(step.outputs(0)).shape(), ElementsAre(128));
  Action other = gather;
  other.set_kind(REDUCE_SCATTER);
  EXPECT_EQ(StepOf(t, other, &action, &segment).kernel(), GROUP_REDUCE_SCATTER);
  other.set_kind(ALL_REDUCE);
  EXPECT_EQ(StepOf(t, other, &action, &segment).kernel(), GROUP_ALL_REDUCE);
}

TEST(ProgramEdit, ADependencyIsAddedOnce) {
  Action action;
  AddDependency(3, 0, false, &action);
  AddDependency(3, 1, false, &action);
  AddDependency(3, 0, true, &action);
  AddDependency(3, 0, false, &action);
  ASSERT_EQ(action.deps_size(), 2);
  // The dependency waits for detached steps if one of the calls asked for that.
  EXPECT_TRUE(action.deps(0).detached());
  EXPECT_FALSE(action.deps(1).detached());
  EXPECT_EQ(action.deps(1).distance(), 1);
}

}  // namespace
}  // namespace weft::sim
