#include "executor/interpreter/stream_heads.h"

#include "gtest/gtest.h"

namespace weft::exec {
namespace {

// Two actions of one step each, each action on its own stream. Action 1 waits for action 0.
PreparedProgram TwoStreams() {
  PreparedProgram program;
  program.streams.resize(2);
  program.actions.resize(2);
  for (int i = 0; i < 2; ++i) {
    program.actions[i].steps.resize(1);
    program.streams[i].steps[kBodyList] = {{.action = i, .step = 0, .first = true, .last = true}};
  }
  program.actions[1].deps = {{.action = 0}};
  return program;
}

class StreamHeadsTest : public ::testing::Test {
 protected:
  void Finish(int action) {
    ++program_.actions[action].finished;
    ++program_.actions[action].steps[0].done;
  }

  PreparedProgram program_ = TwoStreams();
  StreamHeads heads_{program_};
};

TEST_F(StreamHeadsTest, AHeadWaitsForItsAction) {
  heads_.Begin(kBodyList, 0, 0);
  EXPECT_FALSE(heads_.Ready(0)) << "not allowed yet";
  heads_.SetAllowedEnd(2);
  EXPECT_TRUE(heads_.Ready(0));
  EXPECT_FALSE(heads_.Ready(1));
  Finish(0);
  EXPECT_TRUE(heads_.Ready(1));
  // The next repetition of action 1 waits for the next repetition of action 0.
  heads_.Next(1);
  EXPECT_EQ(heads_[1].repetition, 1);
  EXPECT_EQ(heads_[1].position, 0u);
  EXPECT_FALSE(heads_.Ready(1));
  Finish(0);
  EXPECT_TRUE(heads_.Ready(1));
  heads_.Next(1);
  EXPECT_FALSE(heads_.Ready(1)) << "beyond what is allowed";
}

TEST_F(StreamHeadsTest, ADistanceIsOfRepetitions) {
  program_.actions[1].deps = {{.action = 0, .distance = 1}};
  heads_.Begin(kBodyList, 0, 0);
  heads_.SetAllowedEnd(3);
  EXPECT_TRUE(heads_.Ready(1)) << "there is no repetition before the first";
  heads_.Next(1);
  EXPECT_FALSE(heads_.Ready(1));
  Finish(0);
  EXPECT_TRUE(heads_.Ready(1));
}

TEST_F(StreamHeadsTest, OnlyTheFirstStepOfAnActionAsksForItsDependencies) {
  program_.actions[1].steps.resize(2);
  program_.streams[1].steps[kBodyList].push_back({.action = 1, .step = 1});
  heads_.Begin(kBodyList, 0, 0);
  heads_.SetAllowedEnd(1);
  heads_.Next(1);
  EXPECT_EQ(heads_[1].position, 1u);
  EXPECT_TRUE(heads_.Ready(1));
  // The head also waits for steps of its segment on other streams.
  program_.actions[1].steps[1].deps = {0};
  EXPECT_FALSE(heads_.Ready(1));
  program_.actions[1].steps[0].done = 1;
  EXPECT_TRUE(heads_.Ready(1));
}

TEST_F(StreamHeadsTest, DetachedStepsAreWaitedForByName) {
  program_.actions[0].steps.resize(2);
  program_.actions[0].last_detached = {1};
  heads_.Begin(kBodyList, 0, 0);
  heads_.SetAllowedEnd(1);
  Finish(0);
  EXPECT_TRUE(heads_.Ready(1));
  program_.actions[1].deps[0].detached = true;
  EXPECT_FALSE(heads_.Ready(1));
  program_.actions[0].steps[1].done = 1;
  EXPECT_TRUE(heads_.Ready(1));
}

// An epilogue after three repetitions of the body waits for the last of them, or for one before that.
TEST_F(StreamHeadsTest, OtherListsAreOtherRepetitions) {
  program_.actions[1].list = kEpilogueList;
  program_.streams[1].steps[kEpilogueList] = {{.action = 1, .step = 0, .first = true}};
  program_.streams[1].steps[kBodyList].clear();
  heads_.Begin(kEpilogueList, 0, /*body_repetitions=*/3);
  heads_.SetAllowedEnd(1);
  EXPECT_EQ(heads_.list(), kEpilogueList);
  Finish(0);
  Finish(0);
  EXPECT_FALSE(heads_.Ready(1));
  program_.actions[1].deps[0].distance = 1;
  EXPECT_TRUE(heads_.Ready(1));
  program_.actions[1].deps[0].distance = 0;
  Finish(0);
  EXPECT_TRUE(heads_.Ready(1));
  EXPECT_FALSE(heads_.Ready(0)) << "it has no step in this list";
  // A prologue has only one repetition.
  program_.actions[0].list = kPrologueList;
  program_.actions[0].finished = 0;
  EXPECT_FALSE(heads_.Ready(1));
  Finish(0);
  EXPECT_TRUE(heads_.Ready(1));
}

TEST_F(StreamHeadsTest, GroupsAreOfTransfers) {
  program_.actions[1].group = 4;
  heads_.Begin(kBodyList, 0, 0);
  heads_.SetAllowedEnd(1);
  EXPECT_EQ(heads_.GroupAtHead(1), -1);
  program_.streams[1].type = StreamType::kTransfers;
  EXPECT_EQ(heads_.GroupAtHead(1), 4);
  heads_.Next(1);
  EXPECT_EQ(heads_.GroupAtHead(1), -1) << "the repetition may not begin";
}

// Rule P6: if both queues are ready, ARRIVAL runs the action whose dependencies were finished first, and BACKWARD_FIRST
// runs the backward.
TEST_F(StreamHeadsTest, RunsTheEarliestArrivalOfTwoQueues) {
  program_.backward_queue = 1;
  program_.actions[1].deps.clear();
  program_.actions[1].awaits_recv = true;
  program_.actions[0].awaits_recv = true;
  program_.actions.resize(4);
  program_.actions[0].deps = {{.action = 2}};
  program_.actions[1].deps = {{.action = 3}};
  heads_.Begin(kBodyList, 0, 0);
  heads_.SetAllowedEnd(1);
  const auto chosen = [&](ComputeOrder order) { return heads_.ChooseQueue(order, heads_.HeadOf(0), heads_.HeadOf(1)); };
  EXPECT_EQ(chosen(ARRIVAL), -1);
  program_.actions[3].finished = 1;
  program_.actions[3].finished_ns = 20;
  EXPECT_EQ(chosen(ARRIVAL), 1);
  program_.actions[2].finished = 1;
  program_.actions[2].finished_ns = 30;
  EXPECT_EQ(chosen(ARRIVAL), 1);
  program_.actions[2].finished_ns = 20;
  EXPECT_EQ(chosen(ARRIVAL), 0) << "of two that arrive together, the forward";
  EXPECT_EQ(chosen(BACKWARD_FIRST), 1);
  // An action that waited for no message runs first.
  program_.actions[2].finished_ns = 99;
  program_.actions[0].awaits_recv = false;
  EXPECT_EQ(chosen(ARRIVAL), 0);
}

TEST_F(StreamHeadsTest, AQueueWaitsForThePlaceOfTheOther) {
  program_.backward_queue = 1;
  program_.actions[1].deps.clear();
  StreamStep& head = program_.streams[0].steps[kBodyList][0];
  head.other_position = 0;
  head.other_repetition = 0;
  heads_.Begin(kBodyList, 0, 0);
  heads_.SetAllowedEnd(3);
  heads_.Next(0);
  // The backward queue is a repetition behind.
  EXPECT_FALSE(heads_.HeadOf(0).ready);
  head.other_repetition = -1;
  EXPECT_TRUE(heads_.HeadOf(0).ready);
  head.other_repetition = 0;
  heads_.Next(1);
  EXPECT_TRUE(heads_.HeadOf(0).ready);
}

}  // namespace
}  // namespace weft::exec
