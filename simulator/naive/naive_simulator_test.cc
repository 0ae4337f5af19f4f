// Programs small enough to calculate their times by hand, as a check of the oracle itself.
#include "simulator/naive/naive_simulator.h"

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// Builds a program by hand for ranks along one axis. Every rank has its own template.
class Hand {
 public:
  explicit Hand(int ranks) {
    MeshAxis& axis = *program.mutable_mesh()->add_axes();
    axis.set_name("pipe");
    axis.set_size(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      Template& t = *program.add_templates();
      Coordinate& pin = *t.add_pins();
      pin.set_axis("pipe");
      pin.set_index(rank);
    }
  }

  // Adds an action whose segment has one step. `cost` is the step's cost at each load.
  Action& Compute(int rank, std::vector<int64_t> cost, const std::vector<int>& deps = {}) {
    Action& action = Add(rank, FORWARD, deps);
    action.set_segment(program.segments_size());
    program.add_segments()->add_steps()->set_stream(COMPUTE);
    costs.push_back(std::move(cost));
    return action;
  }

  // Adds one rank's part of an all-reduce over all ranks.
  Action& AllReduce(int rank, int64_t bytes, const std::vector<int>& deps = {}, Purpose purpose = GRADIENT_SYNC) {
    Action& action = Add(rank, ALL_REDUCE, deps);
    action.mutable_group()->add_axes()->set_axis("pipe");
    action.set_purpose(purpose);
    action.add_sources(BufferOf(rank, bytes));
    action.add_destinations(action.sources(0));
    return action;
  }

  void Transfer(int from, int to, int64_t bytes, int lane = 0) {
    Action& send = Add(from, SEND, {});
    Action& recv = Add(to, RECV, {});
    for (Action* action : {&send, &recv}) {
      Coordinate& at = *action->mutable_peer()->add_at();
      at.set_axis("pipe");
      at.set_index(action == &send ? to : from);
      action->set_lane(lane);
    }
    send.add_sources(BufferOf(from, bytes));
    recv.add_destinations(BufferOf(to, bytes));
  }

  // Returns (start, end) of the steps of a rank, in list order.
  std::vector<std::pair<int64_t, int64_t>> Times(int rank, const NaiveOptions& options = {}) {
    durations.step = [&](const NaiveStepCall& call) { return costs[call.segment][call.load]; };
    const NaiveResult result = SimulateNaively(program, durations, options);
    EXPECT_TRUE(result.complete);
    std::vector<std::pair<int64_t, int64_t>> times;
    for (const NaiveStep& step : result.steps) {
      if (step.rank == rank) times.push_back({step.start, step.end});
    }
    return times;
  }

  Program program;
  std::vector<std::vector<int64_t>> costs;
  NaiveDurations durations;

 private:
  Action& Add(int rank, ActionKind kind, const std::vector<int>& deps) {
    Template& t = *program.mutable_templates(rank);
    Action& action = *t.add_body();
    action.set_id(t.body_size() - 1);
    action.set_kind(kind);
    for (const int dep : deps) action.add_deps()->set_action(dep);
    return action;
  }

  int BufferOf(int rank, int64_t bytes) {
    Buffer& buffer = *program.mutable_templates(rank)->add_buffers();
    buffer.set_bytes(bytes);
    return program.templates(rank).buffers_size() - 1;
  }
};

// During an all-reduce of 5 ps, a step that costs 10 ps alone costs 20 ps. At 5 ps, 15 are left, which become ceil(15 x
// 10 / 20) = 8 without the all-reduce.
TEST(NaiveLoad, ScalesRemainingTimeWhenACollectiveEnds) {
  Hand hand(2);
  for (int rank = 0; rank < 2; ++rank) {
    hand.Compute(rank, {10, 20, 40});
    hand.AllReduce(rank, 5);
  }
  hand.durations.collective = [](const NaiveCollective& c) { return NaiveTime{c.source_bytes[0], 3}; };
  EXPECT_THAT(hand.Times(0), ElementsAre(Pair(0, 13), Pair(0, 5)));
}

// Three collectives at a time count as two; latency is no load. The step costs 10, 20 or 30 with 0, 1 or 2 collectives.
// Two or more run until 6, one until 8. At 6, 24 of 30 are left and become 16. At 8, 14 are left and become 7.
TEST(NaiveLoad, AtMostTwoCount) {
  Hand hand(2);
  for (int rank = 0; rank < 2; ++rank) {
    hand.Compute(rank, {10, 20, 30});
    hand.AllReduce(rank, 6, {}, GRADIENT_SYNC);
    hand.AllReduce(rank, 6, {}, NORM_SYNC);
    hand.AllReduce(rank, 8, {}, TENSOR);
  }
  hand.durations.collective = [](const NaiveCollective& c) { return NaiveTime{c.source_bytes[0], 50}; };
  EXPECT_THAT(hand.Times(0), ElementsAre(Pair(0, 15), Pair(0, 6), Pair(0, 6), Pair(0, 8)));
}

// One collective ends when the next begins: the load does not change, and nothing is rounded.
TEST(NaiveLoad, ChangesOfOneInstantCountTogether) {
  Hand hand(2);
  for (int rank = 0; rank < 2; ++rank) {
    hand.Compute(rank, {7, 10, 11});
    hand.AllReduce(rank, 3);
    hand.AllReduce(rank, 20);
  }
  hand.durations.collective = [](const NaiveCollective& c) { return NaiveTime{c.source_bytes[0], 0}; };
  EXPECT_THAT(hand.Times(1), ElementsAre(Pair(0, 10), Pair(0, 3), Pair(3, 23)));
}

// A collective that takes no time is no load, and neither is a transfer.
TEST(NaiveLoad, TransfersAndWhatTakesNoTimeAreNoLoad) {
  Hand hand(2);
  for (int rank = 0; rank < 2; ++rank) {
    hand.Compute(rank, {7, 10, 11});
    hand.AllReduce(rank, 0);
  }
  hand.Transfer(0, 1, 5);
  hand.durations.collective = [](const NaiveCollective&) { return NaiveTime{0, 4}; };
  hand.durations.transfer = [](int64_t, int64_t, int64_t bytes) { return NaiveTime{bytes, 0}; };
  EXPECT_THAT(hand.Times(0), ElementsAre(Pair(0, 7), Pair(0, 0), Pair(0, 5)));
}

// Each message uses the outgoing link of its sender and the incoming link of rank 4: 100 MB x 4 at 50 GB/s take 8 ms.
TEST(NaiveFlows, Incast) {
  Hand hand(5);
  for (int rank = 0; rank < 4; ++rank) hand.Transfer(rank, 4, 100000000);
  hand.durations.capacities = std::vector<int64_t>(10, 50000000000);
  hand.durations.transfer = [](int64_t from, int64_t to, int64_t bytes) {
    return NaiveTime{0, 0, {{0, bytes, {{static_cast<int>(from), 1}, {5 + static_cast<int>(to), 1}}}}};
  };
  EXPECT_THAT(hand.Times(4),
              ElementsAre(Pair(0, 8000000000), Pair(0, 8000000000), Pair(0, 8000000000), Pair(0, 8000000000)));
}

// Two messages share a link of 10 bytes per second until the shorter one is over: 10 bytes at 5 each take 2 s. The
// longer one has 20 bytes left, which take another 2 s.
TEST(NaiveFlows, FreedCapacityIsUsed) {
  Hand hand(3);
  hand.Transfer(0, 2, 10);
  hand.Transfer(1, 2, 30);
  hand.durations.capacities = {10};
  hand.durations.transfer = [](int64_t, int64_t, int64_t bytes) { return NaiveTime{0, 0, {{0, bytes, {{0, 1}}}}}; };
  constexpr int64_t kSecond = 1000000000000;
  EXPECT_THAT(hand.Times(2), ElementsAre(Pair(0, 2 * kSecond), Pair(0, 4 * kSecond)));
}

// The fixed part of a phase uses no bandwidth, and phases follow one another. The second message has the link alone for
// 1 s and moves 10 of its 15 bytes. Then both messages move at 5 bytes per second. The second message ends at 2 s, and
// the first has 5 bytes left, which take half a second.
TEST(NaiveFlows, PhasesFollowOneAnother) {
  Hand hand(3);
  hand.Transfer(0, 2, 10);
  hand.Transfer(1, 2, 15);
  hand.durations.capacities = {10};
  constexpr int64_t kSecond = 1000000000000;
  hand.durations.transfer = [](int64_t from, int64_t, int64_t bytes) {
    if (from == 1) return NaiveTime{0, 0, {{0, bytes, {{0, 1}}}}};
    return NaiveTime{0, 7, {{kSecond, 0, {}}, {0, 0, {}}, {0, bytes, {{0, 1}}}, {3, 0, {}}}};
  };
  EXPECT_THAT(hand.Times(2), ElementsAre(Pair(0, 5 * kSecond / 2 + 3), Pair(0, 2 * kSecond)));
}

// A collective with several messages on a link takes its rate from the link once per message. While it runs, it is a
// load for its ranks.
TEST(NaiveFlows, CollectivesAreFlowsAndLoad) {
  Hand hand(2);
  constexpr int64_t kSecond = 1000000000000;
  for (int rank = 0; rank < 2; ++rank) {
    hand.Compute(rank, {kSecond, 2 * kSecond, 3 * kSecond});
    hand.AllReduce(rank, 10);
  }
  hand.durations.capacities = {40, 20};
  hand.durations.collective = [](const NaiveCollective& c) {
    return NaiveTime{0, 0, {{0, c.source_bytes[0], {{0, 4}, {1, 1}}}}};
  };
  EXPECT_THAT(hand.Times(0), ElementsAre(Pair(0, 3 * kSecond / 2), Pair(0, kSecond)));
}

// Ranks 0 and 2 share a node with one slot; rank 1 is on another node.
TEST(NaiveSlots, NodesOfRanksMayBeGiven) {
  Hand hand(3);
  for (int rank = 0; rank < 3; ++rank) hand.Compute(rank, {10, 10, 10});
  const NaiveOptions options = {.slots_per_node = 1, .nodes = {0, 1, 0}};
  EXPECT_THAT(hand.Times(0, options), ElementsAre(Pair(0, 10)));
  EXPECT_THAT(hand.Times(1, options), ElementsAre(Pair(0, 10)));
  EXPECT_THAT(hand.Times(2, options), ElementsAre(Pair(10, 20)));
}

}  // namespace
}  // namespace weft::sim
