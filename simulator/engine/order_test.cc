// The engine on small programs whose times can be calculated by hand: orders chosen at run time, shared transfer
// streams, transfer groups, skip edges, and what counts as a held activation. The naive simulator runs the same
// programs.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/engine/engine.h"
#include "simulator/naive/naive_simulator.h"
#include "simulator/testing/test_programs.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kLatency = 1;

// A transfer of b bytes occupies its streams for b ps.
class ByteNetwork : public NetworkModel {
 public:
  explicit ByteNetwork(int64_t latency) : latency_(latency) {}
  absl::StatusOr<TransferTime> Transfer(int64_t, int64_t, int64_t bytes) const override {
    return TransferTime{{bytes}, {latency_}};
  }
  absl::StatusOr<TransferTime> Collective(const CollectiveCall&, const GroupForm&,
                                          absl::Span<const int64_t>) const override {
    return TransferTime{};
  }

 private:
  int64_t latency_;
};

// Builds a program with one template for each rank of one axis. Segment s has one step that takes s ps.
class TinyProgram {
 public:
  explicit TinyProgram(int ranks) {
    MeshAxis* axis = program.mutable_mesh()->add_axes();
    axis->set_name("pipe");
    axis->set_size(ranks);
    for (int i = 0; i < 10; ++i) program.add_segments()->add_steps();
    for (int rank = 0; rank < ranks; ++rank) {
      Template* t = program.add_templates();
      t->add_pins()->set_axis("pipe");
      t->mutable_pins(0)->set_index(rank);
    }
  }

  // Adds an action that waits for the actions named in `after`. Its name is its kind and its number among actions of
  // that kind on the rank.
  Action& Compute(int rank, ActionKind kind, int duration, int microbatch, const std::vector<std::string>& after = {}) {
    Action& action = Add(rank, kind, after);
    action.set_segment(duration);
    action.set_microbatch(microbatch);
    return action;
  }

  Action& Transfer(int rank, ActionKind kind, int peer, int bytes, const std::vector<std::string>& after = {}) {
    Action& action = Add(rank, kind, after);
    action.mutable_peer()->add_at()->set_axis("pipe");
    action.mutable_peer()->mutable_at(0)->set_index(peer);
    action.set_direction((kind == SEND) == (rank < peer) ? TOWARDS_LOSS : FROM_LOSS);
    Template& t = *program.mutable_templates(rank);
    Buffer* buffer = t.add_buffers();
    buffer->set_class_(IN_FLIGHT_ACTIVATION);
    buffer->set_bytes(bytes);
    buffer->set_persistent(true);
    kind == SEND ? action.add_sources(t.buffers_size() - 1) : action.add_destinations(t.buffers_size() - 1);
    return action;
  }

  absl::StatusOr<EngineResult> Run(int64_t latency = kLatency) const {
    const auto view = BuildProgramView(
        program, [](int segment, int, ActionKind) -> absl::StatusOr<Time> { return Time{segment}; }, {});
    if (!view.ok()) return view.status();
    return RunEngine(*view, ByteNetwork(latency), {.trace = true});
  }

  // Returns (start, end) of every action, by rank and name. The naive simulator must agree.
  std::map<std::string, std::pair<int64_t, int64_t>> Times() const {
    std::map<std::string, std::pair<int64_t, int64_t>> times;
    const auto result = Run();
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return times;
    NaiveDurations durations;
    durations.step = [](const NaiveStepCall& call) { return call.segment; };
    durations.transfer = [](int64_t, int64_t, int64_t bytes) { return NaiveTime{bytes, kLatency}; };
    const NaiveResult naive = SimulateNaively(program, durations);
    EXPECT_TRUE(naive.complete);
    for (size_t rank = 0; rank < result->ranks.size(); ++rank) {
      for (const EngineEvent& event : result->ranks[rank].events) {
        times[std::to_string(rank) + program.templates(rank).body(event.action).name()] = {event.start.ps,
                                                                                           event.end.ps};
      }
    }
    for (const NaiveStep& step : naive.steps) {
      const std::string name = std::to_string(step.rank) + program.templates(step.rank).body(step.action_id).name();
      EXPECT_EQ(times[name], std::make_pair(step.start, step.end)) << name;
    }
    return times;
  }

  Program program;

 private:
  Action& Add(int rank, ActionKind kind, const std::vector<std::string>& after) {
    Template& t = *program.mutable_templates(rank);
    Action& action = *t.add_body();
    action.set_id(t.body_size() - 1);
    action.set_kind(kind);
    int number = 0;
    for (const Action& other : t.body()) number += &other != &action && other.kind() == kind;
    action.set_name(ActionKind_Name(kind) + std::to_string(number));
    for (const std::string& name : after) {
      for (const Action& other : t.body()) {
        if (other.name() == name && &other != &action) action.add_deps()->set_action(other.id());
      }
    }
    return action;
  }
};

using Times = std::pair<int64_t, int64_t>;

// AxoNN: forwards and backwards of a pipeline with at most `limit` microbatches in flight.
Program MessageDriven(int ranks, int microbatches, int limit, ComputeOrder order) {
  Program program = GPipeProgram(ranks, microbatches, /*bytes=*/1);
  program.set_compute_order(order);
  for (Template& t : *program.mutable_templates()) {
    std::vector<int> forward, backward;
    for (const Action& action : t.body()) {
      if (action.kind() == FORWARD) forward.push_back(action.id());
      if (action.kind() == BACKWARD) backward.push_back(action.id());
    }
    for (Action& action : *t.mutable_body()) {
      if (action.kind() == BACKWARD) action.add_deps()->set_action(forward[action.microbatch()]);
      if (action.kind() == FORWARD && action.microbatch() >= limit) {
        action.add_deps()->set_action(backward[action.microbatch() - limit]);
      }
    }
  }
  return program;
}

absl::StatusOr<EngineResult> RunPipeline(const Program& program) {
  const auto view = BuildProgramView(
      program, [](int, int, ActionKind kind) -> absl::StatusOr<Time> { return Time{kind == FORWARD ? 1 : 2}; }, {});
  if (!view.ok()) return view.status();
  class Free : public ByteNetwork {
   public:
    Free() : ByteNetwork(0) {}
    absl::StatusOr<TransferTime> Transfer(int64_t, int64_t, int64_t) const override { return TransferTime{}; }
  };
  return RunEngine(*view, Free(), {});
}

// Makespan and largest peak agree with an independent simulation of AxoNN in which a forward takes 1 and a backward 2.
// In order of arrival the makespan is that of 1F1B, but a little longer with 8 ranks and more than 8 microbatches. With
// the backward first it is that of 1F1B.
TEST(MessageDriven, TimesOfAPipeline) {
  const struct {
    int ranks, microbatches;
    int64_t arrival, backward_first, peak;
  } cases[] = {{2, 4, 15, 15, 2}, {4, 4, 21, 21, 4},  {4, 8, 33, 33, 4},   {4, 16, 57, 57, 4},
               {8, 8, 45, 45, 8}, {8, 16, 75, 69, 8}, {8, 32, 124, 117, 8}};
  for (const auto& c : cases) {
    SCOPED_TRACE(testing::Message() << c.ranks << " ranks, " << c.microbatches << " microbatches");
    const auto arrival = RunPipeline(MessageDriven(c.ranks, c.microbatches, c.ranks, ARRIVAL));
    ASSERT_TRUE(arrival.ok()) << arrival.status();
    EXPECT_EQ(arrival->makespan.ps, c.arrival);
    int64_t peak = 0;
    for (const RankResult& rank : arrival->ranks) peak = std::max(peak, rank.peak_forwards);
    EXPECT_EQ(peak, c.peak);
    EXPECT_EQ(arrival->ranks.back().peak_forwards, 1);
    const auto backward = RunPipeline(MessageDriven(c.ranks, c.microbatches, c.ranks, BACKWARD_FIRST));
    ASSERT_TRUE(backward.ok()) << backward.status();
    EXPECT_EQ(backward->makespan.ps, c.backward_first);
  }
}

TEST(MessageDriven, TheFirstStageWaitsForAMicrobatchToComeBack) {
  // With limit 1, a microbatch passes through the whole pipeline before the next one starts.
  const auto result = RunPipeline(MessageDriven(3, 4, 1, ARRIVAL));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->makespan.ps, 4 * 3 * 3);
  // While the other ranks work, rank 0 is idle and waits for the gradient.
  EXPECT_EQ(result->ranks[0].idle[static_cast<int>(IdleReason::kGradientInput)].ps, 4 * 6);
  EXPECT_EQ(result->ranks[0].idle[static_cast<int>(IdleReason::kInFlightLimit)].ps, 0);
}

// One rank has forwards that wait for nothing, and a backward for each. By arrival, the action that was ready first
// starts first. With the backward first, a backward that is ready starts before any forward.
TEST(MessageDriven, BackwardsPassForwardsAndNothingPassesTheEnd) {
  for (const ComputeOrder order : {STATIC_ORDER, ARRIVAL, BACKWARD_FIRST}) {
    TinyProgram tiny(1);
    tiny.program.set_compute_order(order);
    for (int m = 0; m < 3; ++m) tiny.Compute(0, FORWARD, 1, m);
    for (int m = 0; m < 3; ++m) tiny.Compute(0, BACKWARD, 2, m, {"FORWARD" + std::to_string(m)});
    tiny.Compute(0, OPTIMIZER_STEP, 3, 0);
    tiny.Compute(0, BACKWARD, 2, 3);
    tiny.Compute(0, FORWARD, 1, 3);
    const auto times = tiny.Times();
    // Forwards have no dependencies, so by arrival they come before everything that waited for something.
    const bool backward_first = order == BACKWARD_FIRST;
    EXPECT_EQ(times.at("0FORWARD1"), (backward_first ? Times{3, 4} : Times{1, 2}));
    EXPECT_EQ(times.at("0BACKWARD0"), (backward_first ? Times{1, 3} : Times{3, 5}));
    EXPECT_EQ(times.at("0OPTIMIZER_STEP0"), (Times{9, 12}));
    // After the optimizer step both could start. By arrival the forward goes first, because neither waited for
    // anything; otherwise the backward goes first.
    EXPECT_EQ(times.at("0FORWARD3"), (order == ARRIVAL ? Times{12, 13} : Times{14, 15}));
  }
}

// Rank 0 sends 2 bytes when its forward is over, at 1. Rank 1 answers with 5 bytes when its backward is over, at 4.
TinyProgram Exchange(int group0, int group1) {
  TinyProgram tiny(2);
  tiny.Compute(0, FORWARD, 1, 0);
  tiny.Transfer(0, SEND, 1, 2, {"FORWARD0"}).set_transfer_group(group0);
  tiny.Transfer(0, RECV, 1, 5).set_transfer_group(group0);
  tiny.Compute(1, BACKWARD, 4, 0);
  tiny.Transfer(1, RECV, 0, 2).set_transfer_group(group1);
  tiny.Transfer(1, SEND, 0, 5, {"BACKWARD0"}).set_transfer_group(group1);
  // A second message on the stream of the 2-byte message.
  tiny.Transfer(0, SEND, 1, 1);
  tiny.Transfer(1, RECV, 0, 1);
  return tiny;
}

TEST(TransferGroups, StartTogetherAndHoldTheirStreams) {
  auto times = Exchange(0, 0).Times();
  EXPECT_EQ(times.at("0SEND0"), (Times{1, 3}));
  EXPECT_EQ(times.at("0SEND1"), (Times{3, 4}));
  EXPECT_EQ(times.at("0RECV0"), (Times{4, 9}));
  // A group on either side makes the send wait until the answer is ready; the next send waits for the answer's end.
  for (const auto& [group0, group1] : {std::make_pair(7, 0), {0, 7}, {7, 8}}) {
    times = Exchange(group0, group1).Times();
    EXPECT_EQ(times.at("0SEND0"), (Times{4, 6})) << group0 << " " << group1;
    EXPECT_EQ(times.at("1RECV0"), (Times{4, 6}));
    EXPECT_EQ(times.at("0RECV0"), (Times{4, 9}));
    EXPECT_EQ(times.at("0SEND1"), (Times{9, 10}));
  }
}

TEST(TransferStreams, SharedOnesKeepListOrder) {
  for (const TransferStreams streams : {PER_DIRECTION, SHARED}) {
    TinyProgram tiny = Exchange(0, 0);
    tiny.program.set_transfer_streams(streams);
    const auto times = tiny.Times();
    EXPECT_EQ(times.at("0SEND0"), (Times{1, 3}));
    EXPECT_EQ(times.at("0RECV0"), (Times{4, 9}));
    EXPECT_EQ(times.at("0SEND1"), (streams == SHARED ? Times{9, 10} : Times{3, 4}));
  }
}

// Both ranks send first: if they have one stream each, neither receive is ever ready.
TEST(TransferStreams, OneStreamCanBlockAndAGroupFreesIt) {
  for (const int group : {0, 1}) {
    TinyProgram tiny(2);
    for (const int rank : {0, 1}) {
      tiny.Transfer(rank, SEND, 1 - rank, 3).set_transfer_group(group);
      tiny.Transfer(rank, RECV, 1 - rank, 3).set_transfer_group(group);
    }
    EXPECT_EQ(tiny.Run()->makespan.ps, 3 + kLatency);
    tiny.program.set_transfer_streams(SHARED);
    if (group > 0) {
      EXPECT_EQ(tiny.Times().at("1RECV0"), (Times{0, 3}));
      continue;
    }
    const auto blocked = tiny.Run();
    EXPECT_EQ(blocked.status().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(blocked.status().message()), HasSubstr("rank 0 stream 'p2p' at action 0 'SEND0'"));
  }
}

// Two messages of one edge in one group are in flight at the same time.
TEST(TransferGroups, HoldSeveralMessagesOfOneEdge) {
  TinyProgram tiny(2);
  for (const int bytes : {2, 5}) tiny.Transfer(0, SEND, 1, bytes).set_transfer_group(1);
  for (const int bytes : {2, 5}) tiny.Transfer(1, RECV, 0, bytes).set_transfer_group(4);
  const auto times = tiny.Times();
  EXPECT_EQ(times.at("0SEND0"), (Times{0, 2}));
  EXPECT_EQ(times.at("1RECV1"), (Times{0, 5}));
}

TEST(SkipEdges, MatchAmongThemselves) {
  // Rank 0 sends over the skip edge first; rank 1 receives from it last.
  TinyProgram tiny(2);
  tiny.Transfer(0, SEND, 1, 7).set_skip(1);
  tiny.Transfer(0, SEND, 1, 2);
  tiny.Transfer(1, RECV, 0, 2);
  tiny.Transfer(1, RECV, 0, 7).set_skip(1);
  const auto times = tiny.Times();
  EXPECT_EQ(times.at("1RECV0"), (Times{0, 2}));
  EXPECT_EQ(times.at("1RECV1"), (Times{0, 7}));
}

TEST(HeldActivations, EndWithTheWeightGradient) {
  TinyProgram tiny(1);
  tiny.Compute(0, FORWARD, 1, 0);
  tiny.Compute(0, BACKWARD_INPUT, 1, 0);
  tiny.Compute(0, FORWARD, 1, 1);
  tiny.Compute(0, BACKWARD_WEIGHT, 1, 0);
  tiny.Compute(0, BACKWARD, 1, 1);
  EXPECT_EQ(tiny.Run()->ranks[0].peak_forwards, 2);
}

TEST(HeldActivations, WideForwardHoldsUntilItsLastBackward) {
  TinyProgram tiny(1);
  tiny.Compute(0, FORWARD, 1, 0).set_width(2);
  tiny.Compute(0, BACKWARD, 1, 0);
  tiny.Compute(0, FORWARD, 1, 2);
  tiny.Compute(0, BACKWARD, 1, 1);
  tiny.Compute(0, FORWARD, 1, 3);
  for (const int m : {2, 3}) tiny.Compute(0, BACKWARD, 1, m);
  const auto once = tiny.Run();
  EXPECT_EQ(once->ranks[0].peak_forwards, 3);
}

TEST(HeldActivations, APairHoldsOneAndReturnsAnother) {
  TinyProgram tiny(1);
  tiny.Compute(0, FORWARD, 1, 0);
  for (const int m : {1, 2}) tiny.Compute(0, FORWARD_BACKWARD, 1, m).mutable_backward()->set_microbatch(m - 1);
  tiny.Compute(0, BACKWARD, 1, 2);
  EXPECT_EQ(tiny.Run()->ranks[0].peak_forwards, 2);
}

}  // namespace
}  // namespace weft::sim
