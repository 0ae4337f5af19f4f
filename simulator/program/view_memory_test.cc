#include "simulator/program/view_memory.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// A segment that reads its first operand and writes its second. Buffers 0 to 2 are temporary, 3 is persistent, 4 is in
// host memory.
Program WithBody(const std::string& actions) {
  return Parse<Program>(R"(
    segments { operands { access: READ } operands { access: WRITE } }
    templates { name: "t"
      buffers { class: SAVED_ACTIVATION bytes: 100 } buffers { class: WORKSPACE bytes: 30 }
      buffers { class: SAVED_ACTIVATION bytes: 7 } buffers { class: PARAMETER bytes: 1000 persistent: true }
      buffers { class: SAVED_ACTIVATION bytes: 5000 place: HOST } )" +
                        actions + " }");
}

TemplateView ViewOf(const Program& program) {
  TemplateView view;
  view.proto = &program.templates(0);
  const auto add = [&](const auto& list, ListKind kind) {
    for (const Action& action : list) {
      ActionView& own = view.actions.emplace_back();
      own.action = &action;
      own.list = kind;
    }
  };
  add(view.proto->prologue(), ListKind::kPrologue);
  add(view.proto->body(), ListKind::kBody);
  return view;
}

std::vector<std::pair<int, int64_t>> Changes(const TemplateView& view, const Range& range) {
  std::vector<std::pair<int, int64_t>> changes;
  for (int32_t i = range.begin; i < range.end; ++i)
    changes.push_back({view.memory[i].buffer_class, view.memory[i].bytes});
  return changes;
}

TEST(ViewMemoryTest, BuffersLiveFromTheirFirstWriterToTheirRelease) {
  const Program program = WithBody(R"(
    body { kind: RECV destinations: 0 destinations: 2 } body { kind: FORWARD operands: [ 0, 1 ] releases: 0 }
    body { kind: FORWARD operands: [ 2, 1 ] releases: [ 1, 2 ] })");
  TemplateView view = ViewOf(program);
  ASSERT_TRUE(AddMemory(program, view).ok());
  // Buffers of one class are summed.
  EXPECT_THAT(Changes(view, view.actions[0].allocates), ElementsAre(Pair(SAVED_ACTIVATION, 107)));
  EXPECT_THAT(Changes(view, view.actions[0].frees), IsEmpty());
  EXPECT_THAT(Changes(view, view.actions[1].allocates), ElementsAre(Pair(WORKSPACE, 30)));
  EXPECT_THAT(Changes(view, view.actions[1].frees), ElementsAre(Pair(SAVED_ACTIVATION, 100)));
  // Action 2 writes a buffer that is already live, so nothing becomes live.
  EXPECT_THAT(Changes(view, view.actions[2].allocates), IsEmpty());
  EXPECT_THAT(Changes(view, view.actions[2].frees),
              ::testing::UnorderedElementsAre(Pair(WORKSPACE, 30), Pair(SAVED_ACTIVATION, 7)));
}

TEST(ViewMemoryTest, EveryListHasItsOwnWriters) {
  const Program program =
      WithBody("prologue { kind: RECV destinations: 0 } body { kind: RECV destinations: 0 releases: 0 }");
  TemplateView view = ViewOf(program);
  ASSERT_TRUE(AddMemory(program, view).ok());
  for (const ActionView& action : view.actions) {
    EXPECT_THAT(Changes(view, action.allocates), ElementsAre(Pair(SAVED_ACTIVATION, 100)));
  }
}

TEST(ViewMemoryTest, PersistentBuffersAlwaysCountAndHostMemoryNever) {
  const Program program = WithBody("body { kind: RECV destinations: [ 3, 4 ] releases: 4 }");
  TemplateView view = ViewOf(program);
  ASSERT_TRUE(AddMemory(program, view).ok());
  EXPECT_THAT(Changes(view, view.actions[0].allocates), IsEmpty());
  EXPECT_THAT(Changes(view, view.actions[0].frees), IsEmpty());
  EXPECT_EQ(view.persistent[PARAMETER], 1000);
  EXPECT_EQ(view.persistent[SAVED_ACTIVATION], 0);
}

TEST(ViewMemoryTest, NamesFaultsOfUnverifiedPrograms) {
  const auto error = [](const std::string& actions) {
    const Program program = WithBody(actions);
    TemplateView view = ViewOf(program);
    return std::string(AddMemory(program, view).message());
  };
  EXPECT_THAT(error("body { id: 3 kind: RECV destinations: 9 }"),
              HasSubstr("template 't' action 3 '': buffer 9 does not exist"));
  EXPECT_THAT(error("body { kind: FORWARD operands: 0 }"), HasSubstr("it binds 1 buffers to 2 operands"));
}

TEST(HeldActivationsTest, FromTheForwardToTheLastOfTheBackward) {
  const Program program = WithBody(R"(
    body { kind: FORWARD } body { kind: BACKWARD_INPUT } body { kind: BACKWARD_WEIGHT }
    body { kind: FORWARD_BACKWARD microbatch: 1 backward { microbatch: 0 } }
    body { kind: FORWARD if_exceeded: true })");
  TemplateView view = ViewOf(program);
  AddHeldActivations(view);
  std::vector<int> holds, unholds;
  for (const ActionView& action : view.actions) {
    holds.push_back(action.holds);
    unholds.push_back(action.unholds);
    EXPECT_EQ(action.held_object, -1);
  }
  // An action that runs again adds no microbatch.
  EXPECT_THAT(holds, ElementsAre(1, 0, 0, 1, 0));
  EXPECT_THAT(unholds, ElementsAre(0, 0, 1, 1, 0));
}

TEST(HeldActivationsTest, WideForwardHoldsAllUntilItsLastBackward) {
  const Program program = WithBody(R"(
    body { kind: FORWARD stage: 1 microbatch: 2 width: 2 } body { kind: BACKWARD stage: 1 microbatch: 2 }
    body { kind: BACKWARD stage: 1 microbatch: 3 } body { kind: BACKWARD stage: 0 microbatch: 3 })");
  TemplateView view = ViewOf(program);
  view.objects = 4;
  AddHeldActivations(view);
  EXPECT_EQ(view.objects, 5);
  EXPECT_EQ(view.actions[0].holds, 2);
  for (const int backward : {1, 2}) {
    EXPECT_EQ(view.actions[backward].held_object, 4);
    EXPECT_EQ(view.actions[backward].unholds, 2);
  }
  // Action 3 is a backward of another stage, so it does not belong to the wide forward.
  EXPECT_EQ(view.actions[3].held_object, -1);
  EXPECT_EQ(view.actions[3].unholds, 1);
}

}  // namespace
}  // namespace weft::sim
