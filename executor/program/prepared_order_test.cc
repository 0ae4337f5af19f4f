#include "executor/program/prepared_order.h"

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Actions of one step each, with the Action that they point to.
class Prepared {
 public:
  Prepared() { program.streams.resize(2); }

  // Returns the action's index.
  int Add(ActionKind kind, int stream, int transfer_group = 0, ActionList list = kBodyList) {
    Action& action = actions_.emplace_back();
    action.set_kind(kind);
    action.set_transfer_group(transfer_group);
    PreparedAction& prepared = program.actions.emplace_back();
    prepared.action = &action;
    prepared.list = list;
    prepared.steps.emplace_back().stream = stream;
    return static_cast<int>(program.actions.size()) - 1;
  }
  // Adds an action as Add does, and appends `steps` steps of it to the stream's list.
  void Queue(ActionKind kind, int stream, int steps = 1, ActionList list = kBodyList) {
    const int action = Add(kind, stream, 0, list);
    for (int step = 0; step < steps; ++step) {
      program.streams[stream].steps[list].push_back({.action = action, .step = step, .first = step == 0});
    }
  }
  // (other_position, other_repetition) of the first steps of a queue.
  std::vector<std::pair<int, int>> Waits(int stream, ActionList list = kBodyList) const {
    std::vector<std::pair<int, int>> waits;
    for (const StreamStep& step : program.streams[stream].steps[list]) {
      if (step.first) waits.push_back({step.other_position, step.other_repetition});
    }
    return waits;
  }

  PreparedProgram program;

 private:
  std::deque<Action> actions_;
};

TEST(GroupTransfers, NeighborsWithTheSameNumberAreOneGroup) {
  Prepared p;
  p.Add(FORWARD, 0);
  p.Add(SEND, 5, 3);
  p.Add(RECV, 6, 3);
  p.Add(SEND, 5, 3);
  p.Add(RECV, 7, 4);
  p.Add(SEND, 8, 4);
  GroupTransfers(p.program);
  ASSERT_EQ(p.program.groups.size(), 2u);
  EXPECT_THAT(p.program.groups[0].actions, ElementsAre(1, 2, 3));
  EXPECT_THAT(p.program.groups[0].stream_of, ElementsAre(5, 6, 5));
  EXPECT_THAT(p.program.groups[0].streams, ElementsAre(5, 6));
  EXPECT_THAT(p.program.groups[1].actions, ElementsAre(4, 5));
  std::vector<int> groups;
  for (const PreparedAction& action : p.program.actions) groups.push_back(action.group);
  EXPECT_THAT(groups, ElementsAre(-1, 0, 0, 0, 1, 1));
}

TEST(GroupTransfers, SeparateSingleOrUnnumberedTransfersFormNoGroup) {
  Prepared p;
  // These transfers are in two lists.
  p.Add(SEND, 5, 1, kPrologueList);
  p.Add(SEND, 5, 1);
  // These have another action between them.
  p.Add(FORWARD, 0);
  p.Add(SEND, 5, 1);
  // The group number of a compute action means nothing.
  p.Add(BACKWARD, 0, 2);
  p.Add(RECV, 6, 2);
  // These have no group number.
  p.Add(SEND, 5);
  p.Add(RECV, 6);
  GroupTransfers(p.program);
  EXPECT_THAT(p.program.groups, IsEmpty());
  for (const PreparedAction& action : p.program.actions) EXPECT_EQ(action.group, -1);
}

TEST(GroupTransfers, GroupsKeepTheirList) {
  Prepared p;
  p.Add(SEND, 5, 1, kEpilogueList);
  p.Add(RECV, 6, 1, kEpilogueList);
  GroupTransfers(p.program);
  ASSERT_EQ(p.program.groups.size(), 1u);
  EXPECT_EQ(p.program.groups[0].list, kEpilogueList);
}

// F F B B O F B: the optimizer step O waits for both backwards before it. In the next repetition, these two backwards
// wait for O of this one. The last backward waits for O of its own repetition.
TEST(OrderQueues, ActionsOfBothQueuesAreOrderedWithBackwards) {
  Prepared p;
  p.program.backward_queue = 1;
  p.Queue(FORWARD, 0, 2);
  p.Queue(FORWARD, 0, 2);
  p.Queue(BACKWARD, 1, 3);
  p.Queue(BACKWARD, 1, 3);
  p.Queue(OPTIMIZER_STEP, 0, 2);
  p.Queue(FORWARD, 0, 2);
  p.Queue(BACKWARD, 1, 3);
  OrderQueues(p.program);
  // Positions count steps: six of backwards, and 2 + 2 + 2 of forwards and O.
  EXPECT_THAT(p.Waits(0), ElementsAre(std::pair(-1, 0), std::pair(-1, 0), std::pair(6, 0), std::pair(-1, 0)));
  EXPECT_THAT(p.Waits(1), ElementsAre(std::pair(6, -1), std::pair(6, -1), std::pair(6, 0)));
}

TEST(OrderQueues, ForwardsAloneHoldNothingUp) {
  Prepared p;
  p.program.backward_queue = 1;
  p.Queue(FORWARD, 0);
  p.Queue(BACKWARD, 1);
  // This list has only one queue.
  p.Queue(OPTIMIZER_STEP, 0, 1, kEpilogueList);
  OrderQueues(p.program);
  EXPECT_THAT(p.Waits(0), ElementsAre(std::pair(-1, 0)));
  EXPECT_THAT(p.Waits(1), ElementsAre(std::pair(-1, 0)));
  EXPECT_THAT(p.Waits(0, kEpilogueList), ElementsAre(std::pair(-1, 0)));
}

}  // namespace
}  // namespace weft::exec
