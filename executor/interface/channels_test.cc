#include "executor/interface/channels.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::exec {
namespace {

// Two ranks in a pipeline: activations on two lanes one way, gradients the other, a skip edge, a norm's sum, and a
// collective in a segment that both run.
Program Pipeline() {
  return Parse<Program>(R"(
    mesh { axes { name: "pipe" size: 2 } }
    segments { steps { name: "product" }
      steps { stream: COLLECTIVE collective { purpose: TENSOR group { axes { axis: "pipe" } } } } }
    templates { name: "first"
      body { id: 0 kind: SEND lane: 1 direction: TOWARDS_LOSS peer { at { axis: "pipe" index: 1 } } }
      body { id: 1 kind: SEND lane: 0 direction: TOWARDS_LOSS peer { at { axis: "pipe" index: 1 } } }
      body { id: 2 kind: RECV lane: 0 direction: FROM_LOSS peer { at { axis: "pipe" index: 1 } } }
      body { id: 3 kind: SEND lane: 0 direction: TOWARDS_LOSS skip: 1 peer { at { axis: "pipe" index: 1 } } }
      body { id: 4 kind: ALL_REDUCE purpose: NORM_SYNC group { axes { axis: "pipe" } } }
      body { id: 5 kind: FORWARD segment: 0 } }
    templates { name: "second"
      epilogue { id: 9 kind: FORWARD segment: 0 }
      body { id: 0 kind: RECV lane: 0 direction: TOWARDS_LOSS skip: 1 peer { at { axis: "pipe" index: 0 } } }
      body { id: 1 kind: SEND lane: 0 direction: FROM_LOSS peer { at { axis: "pipe" index: 0 } } }
      body { id: 2 kind: RECV lane: 0 direction: TOWARDS_LOSS peer { at { axis: "pipe" index: 0 } } }
      prologue { id: 8 kind: RECV lane: 1 direction: TOWARDS_LOSS peer { at { axis: "pipe" index: 0 } } }
      body { id: 4 kind: ALL_REDUCE purpose: NORM_SYNC group { axes { axis: "pipe" } } } })");
}

TEST(ChannelsTest, BothEndsGiveAChannelTheSameNumber) {
  const Program program = Pipeline();
  const ChannelMap first(program, 0, program.templates(0)), second(program, 1, program.templates(1));
  std::vector<int> numbers;
  const auto expect_same = [&](const ChannelKey& key) {
    const int number = first.Channel(1, key);
    EXPECT_GE(number, 0);
    EXPECT_EQ(number, second.Channel(0, key));
    numbers.push_back(number);
  };
  for (int i = 0; i < 4; ++i) expect_same(TransferKey(program.templates(0).body(i)));
  const Group all = program.templates(0).body(4).group();
  expect_same(CommunicatorKey(program.mesh(), 0, all, NORM_SYNC));
  expect_same(CommunicatorKey(program.mesh(), 0, all, TENSOR));
  // Each key has its own number, counted from 0.
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(numbers, std::vector<int>({0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(first.Channel(1, CommunicatorKey(program.mesh(), 0, all, LOSS_SYNC)), -1);
  EXPECT_EQ(first.Channel(7, TransferKey(program.templates(0).body(0))), -1);
}

TEST(ChannelsTest, ACommunicatorIsItsMembersAndItsPurpose) {
  const Program program = Pipeline();
  const Group all = program.templates(0).body(4).group();
  const ChannelKey key = CommunicatorKey(program.mesh(), 0, all, NORM_SYNC);
  EXPECT_EQ(key, CommunicatorKey(program.mesh(), 1, all, NORM_SYNC));
  EXPECT_EQ(std::get<3>(key), std::vector<int64_t>({0, 1}));
  EXPECT_NE(key, CommunicatorKey(program.mesh(), 0, all, LOSS_SYNC));
  const Group alone = Parse<Group>(R"(axes { axis: "pipe" indices: 0 })");
  EXPECT_NE(key, CommunicatorKey(program.mesh(), 0, alone, NORM_SYNC));
}

TEST(ChannelsTest, NamesSayWhatIsShared) {
  const Program program = Pipeline();
  const Action& send = program.templates(0).body(0);
  const Action& skip = program.templates(0).body(3);
  const Action& receive = program.templates(0).body(2);
  EXPECT_EQ(TransferStreamName(SHARED, send), "p2p");
  EXPECT_EQ(TransferStreamName(PER_DIRECTION, send), "p2p towards_loss");
  EXPECT_EQ(TransferStreamName(PER_DIRECTION, receive), "p2p from_loss");
  EXPECT_EQ(TransferStreamName(PER_EDGE, send), "send pipe=1 towards_loss lane 1");
  EXPECT_EQ(TransferStreamName(PER_EDGE, receive), "recv pipe=1 from_loss lane 0");
  EXPECT_EQ(TransferStreamName(PER_EDGE, skip), "send pipe=1 towards_loss lane 0 skip 1");
  EXPECT_EQ(
      CommunicatorName(Parse<Group>(R"(axes { axis: "data" } axes { axis: "pipe" indices: [0, 3] })"), GRADIENT_SYNC),
      "GRADIENT_SYNC over data,pipe=0+3");
  EXPECT_EQ(CommunicatorName(Parse<Group>(R"(axes { axis: "data" block: 2 })"), GATHER_WEIGHTS),
            "GATHER_WEIGHTS over data in blocks of 2");
  EXPECT_EQ(CommunicatorName(Parse<Group>(R"(axes { axis: "data" stride: 4 })"), GATHER_WEIGHTS),
            "GATHER_WEIGHTS over data across blocks of 4");
}

}  // namespace
}  // namespace weft::exec
