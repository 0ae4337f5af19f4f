#include "proto/edit/program_edit.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A segment in which b waits for a, and c waits for b.
Segment Chain() {
  return Parse<Segment>(R"(steps { name: "a" } steps { name: "b" deps: 0 } steps { name: "c" deps: 1 })");
}

JoiningStep Joining(const std::string& name, int behind, std::vector<int> deps = {}) {
  JoiningStep joining;
  joining.step.set_name(name);
  for (const int dep : deps) joining.step.add_deps(dep);
  joining.after_step = behind;
  return joining;
}

std::vector<std::string> NamesOf(const Segment& segment) {
  std::vector<std::string> names;
  for (const Step& step : segment.steps()) names.push_back(step.name());
  return names;
}

TEST(ProgramEdit, StepsStandBehindTheirsAndDependenciesFollow) {
  Segment segment = Chain();
  // The list is not sorted by `after_step`. Two steps after the same step keep their order.
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

TEST(ProgramEdit, StepsDoNotWaitForLaterSteps) {
  Segment segment = Chain();
  JoiningStep behind = Joining("behind", 1);
  behind.awaited_by = {0, 1, 2};
  Join({behind}, &segment);
  EXPECT_THAT(NamesOf(segment), ElementsAre("a", "b", "behind", "c"));
  EXPECT_THAT(segment.steps(0).deps(), IsEmpty());
  EXPECT_THAT(segment.steps(1).deps(), ElementsAre(0));
  EXPECT_THAT(segment.steps(3).deps(), ElementsAre(1, 2));
}

TEST(ProgramEdit, JoiningNothingChangesNothing) {
  Segment segment = Chain();
  Join({}, &segment);
  EXPECT_EQ(segment.SerializeAsString(), Chain().SerializeAsString());
}

TEST(ProgramEdit, ARepeatedStepWaitsForTheFirstAndStandsForBoth) {
  Segment segment = Chain();
  StepEditor editor(&segment);
  for (int i = 0; i < 3; ++i) {
    const int first = editor.Append(segment.steps(i), i);
    if (i != 1) continue;
    Step again;
    again.set_name("b again");
    again.add_deps(first);
    editor.Append(again, 1);
  }
  editor.Finish();
  EXPECT_THAT(NamesOf(segment), ElementsAre("a", "b", "b again", "c"));
  EXPECT_THAT(segment.steps(1).deps(), ElementsAre(0));
  EXPECT_THAT(segment.steps(2).deps(), ElementsAre(1));
  EXPECT_THAT(segment.steps(3).deps(), ElementsAre(2));
}

TEST(ProgramEdit, AStepThatMovesDownIsStillAwaited) {
  Segment segment = Chain();
  StepEditor editor(&segment);
  for (const int i : {2, 1, 0}) editor.Append(segment.steps(i), i);
  editor.Finish();
  EXPECT_THAT(NamesOf(segment), ElementsAre("c", "b", "a"));
  EXPECT_THAT(segment.steps(0).deps(), ElementsAre(1));
  EXPECT_THAT(segment.steps(1).deps(), ElementsAre(2));
}

// x and y replace b (id 5), which no longer exists. Actions that waited for b wait for y.
TEST(ProgramEdit, IdsBecomePositions) {
  Template t = Parse<Template>(R"(
    prologue { id: 2 name: "p" }
    body { id: 4 name: "a" deps { action: 2 } } body { id: 9 name: "x" deps { action: 4 } }
    body { id: 8 name: "y" deps { action: 5 distance: 1 } deps { action: 9 } }
    body { id: 6 name: "c" deps { action: 5 } deps { action: 8 detached: true } })");
  EXPECT_EQ(NextActionId(t), 10);
  RedirectDependencies({{5, 8}}, &t);
  NumberActions(&t);
  EXPECT_EQ(NextActionId(t), 5);
  const Template expected = Parse<Template>(R"(
    prologue { id: 0 name: "p" }
    body { id: 1 name: "a" deps { action: 0 } } body { id: 2 name: "x" deps { action: 1 } }
    body { id: 3 name: "y" deps { action: 2 } deps { action: 3 distance: 1 } }
    body { id: 4 name: "c" deps { action: 3 detached: true } })");
  EXPECT_EQ(t.DebugString(), expected.DebugString());
}

TEST(ProgramEdit, AReplacementMayWaitForTheActionItReplaces) {
  Template t = Parse<Template>("body { id: 0 } body { id: 7 deps { action: 0 } } body { id: 2 deps { action: 0 } }");
  RedirectDependencies({{0, 7}}, &t);
  EXPECT_EQ(t.body(1).deps(0).action(), 0);
  EXPECT_EQ(t.body(2).deps(0).action(), 7);
}

TEST(ProgramEdit, ADependencyIsAddedOnce) {
  Action action;
  AddDependency(3, 0, false, &action);
  AddDependency(3, 1, false, &action);
  AddDependency(3, 0, true, &action);
  AddDependency(3, 0, false, &action);
  ASSERT_EQ(action.deps_size(), 2);
  // The dependency waits for detached steps because one of the calls asked for that.
  EXPECT_TRUE(action.deps(0).detached());
  EXPECT_FALSE(action.deps(1).detached());
  EXPECT_EQ(action.deps(1).distance(), 1);
}

}  // namespace
}  // namespace weft
