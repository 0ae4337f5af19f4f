// Transfers and collectives over shared links in the engine: when they end, what is traced and what is metered.
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/engine/engine.h"
#include "simulator/testing/test_programs.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMillisecond = 1'000'000'000;

// Rank r sends over link 2 r and receives over link 2 r + 1, each of `bytes_per_second`. A collective moves the bytes
// of its first buffer once from each member to the next, after `fixed` ps.
class StarNetwork : public NetworkModel {
 public:
  StarNetwork(int64_t ranks, int64_t bytes_per_second, Time latency, int64_t fixed)
      : capacities_(2 * ranks, bytes_per_second), latency_(latency), fixed_(fixed) {}

  absl::Span<const int64_t> LinkCapacities() const override { return capacities_; }
  absl::StatusOr<Flow> TransferFlow(int64_t source, int64_t destination, int64_t bytes) const override {
    std::map<int32_t, int32_t> loads = {{2 * source, 1}, {2 * destination + 1, 1}};
    return Flow{.phases = {{.fixed_ps = fixed_, .bytes = bytes, .loads = {loads.begin(), loads.end()}}},
                .latency = latency_};
  }
  absl::StatusOr<Flow> CollectiveFlow(const CollectiveCall& call, const GroupForm&,
                                      absl::Span<const int64_t> members) const override {
    std::map<int32_t, int32_t> loads;
    for (const int64_t member : members) loads[2 * member] = loads[2 * member + 1] = 1;
    const int64_t bytes = call.parts[0].elements * call.parts[0].element_bytes;
    return Flow{.phases = {{.fixed_ps = fixed_, .bytes = bytes, .loads = {loads.begin(), loads.end()}}},
                .latency = latency_};
  }
  // Not used: if a network has shared links, the engine gets flows from it and no times.
  absl::StatusOr<TransferTime> Transfer(int64_t, int64_t, int64_t) const override {
    return absl::InternalError("not a network of fixed times");
  }
  absl::StatusOr<TransferTime> Collective(const CollectiveCall&, const GroupForm&,
                                          absl::Span<const int64_t>) const override {
    return absl::InternalError("not a network of fixed times");
  }

 private:
  const std::vector<int64_t> capacities_;
  const Time latency_;
  const int64_t fixed_;
};

// Builds a program with one template for each rank of axis pipe.
class Builder {
 public:
  explicit Builder(int ranks) {
    program.mutable_mesh()->add_axes()->set_name("pipe");
    program.mutable_mesh()->mutable_axes(0)->set_size(ranks);
    Segment* segment = program.add_segments();
    segment->add_steps()->set_name("step");
    for (int rank = 0; rank < ranks; ++rank) {
      Template* t = program.add_templates();
      t->add_pins()->set_axis("pipe");
      t->mutable_pins(0)->set_index(rank);
    }
  }

  Action& Add(int rank, ActionKind kind, const std::vector<int>& deps = {}) {
    Template* t = program.mutable_templates(rank);
    Action& action = *t->add_body();
    action.set_id(t->body_size() - 1);
    action.set_kind(kind);
    for (const int dep : deps) action.add_deps()->set_action(dep);
    return action;
  }

  // Adds a message of `bytes`. If `late`, both sides wait for the preceding action in the list of their rank.
  void Transfer(int from, int to, int64_t bytes, int lane = 0, bool late = false) {
    for (const bool send : {true, false}) {
      const int rank = send ? from : to;
      Template* t = program.mutable_templates(rank);
      t->add_buffers()->set_bytes(bytes);
      t->mutable_buffers(t->buffers_size() - 1)->set_persistent(true);
      Action& action = Add(rank, send ? SEND : RECV, late ? std::vector<int>{t->body_size() - 1} : std::vector<int>{});
      action.mutable_peer()->add_at()->set_axis("pipe");
      action.mutable_peer()->mutable_at(0)->set_index(send ? to : from);
      action.set_lane(lane);
      action.set_direction(TOWARDS_LOSS);
      (send ? action.mutable_sources() : action.mutable_destinations())->Add(t->buffers_size() - 1);
    }
  }

  void AllReduce(const std::vector<int>& ranks, int64_t bytes) {
    for (const int rank : ranks) {
      Template* t = program.mutable_templates(rank);
      t->add_buffers()->set_bytes(bytes);
      t->mutable_buffers(t->buffers_size() - 1)->set_dtype(UINT8);
      t->mutable_buffers(t->buffers_size() - 1)->add_shape(bytes);
      t->mutable_buffers(t->buffers_size() - 1)->set_persistent(true);
      Action& action = Add(rank, ALL_REDUCE);
      action.add_sources(t->buffers_size() - 1);
      action.add_destinations(t->buffers_size() - 1);
      action.set_purpose(GRADIENT_SYNC);
      action.set_algorithm("ring");
      AxisSubset* axis = action.mutable_group()->add_axes();
      axis->set_axis("pipe");
      axis->mutable_indices()->Add(ranks.begin(), ranks.end());
    }
  }

  absl::StatusOr<EngineResult> Run(const NetworkModel& network, EngineOptions options = {.trace = true}) {
    const auto duration = [&](int, int, ActionKind) -> absl::StatusOr<Time> { return Time{step_ps}; };
    const auto view = BuildProgramView(program, duration, {});
    if (!view.ok()) return view.status();
    return RunEngine(*view, network, options);
  }

  Program program;
  int64_t step_ps = kMillisecond;
};

TEST(EngineFlow, IncastOfFourEndsWhenTheirLinkHasCarriedAll) {
  // Four transfers of 100 MB share the receiver's link of 50 GB/s.
  Builder b(5);
  for (int source = 1; source < 5; ++source) b.Transfer(source, 0, 100'000'000);
  const auto result = b.Run(StarNetwork(5, 50'000'000'000, {7}, 0));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->makespan.ps, 8 * kMillisecond + 7);
  EXPECT_EQ(result->steps, 8);
  for (size_t rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(result->ranks[rank].events.size(), rank == 0 ? 4u : 1u);
    for (const EngineEvent& event : result->ranks[rank].events) {
      EXPECT_EQ(event.start.ps, 0);
      EXPECT_EQ(event.end.ps, 8 * kMillisecond);
      // The receiver has the data `latency` later.
      EXPECT_EQ(event.finish.ps, 8 * kMillisecond + (rank == 0 ? 7 : 0));
    }
    EXPECT_EQ(result->ranks[rank].exposed_communication.ps, 8 * kMillisecond + (rank == 0 ? 7 : 0));
  }
}

TEST(EngineFlow, IncastOfFourNodesOnTheNetworkFlow) {
  Builder b(5);
  for (int source = 1; source < 5; ++source) b.Transfer(source, 0, 100'000'000);
  Cluster cluster;
  cluster.set_nodes(5);
  cluster.set_devices_per_node(1);
  cluster.set_nics_per_node(1);
  cluster.mutable_inter_node()->set_bytes_per_second(50e9);
  const std::unique_ptr<NetworkModel> network = (*FindNetworkModel("flow"))->make(b.program.mesh(), cluster);
  const auto result = b.Run(*network);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->makespan.ps, 8 * kMillisecond);
  // One of the transfers alone takes 2 ms.
  Builder alone(5);
  alone.Transfer(3, 0, 100'000'000);
  EXPECT_EQ(alone.Run(*network)->makespan.ps, 2 * kMillisecond);
}

TEST(EngineFlow, TransfersAndCollectivesShareAsTheyComeAndGo) {
  // Each link carries 1 byte per ps. The transfer of 3000 bytes from rank 0 to rank 1 begins at 0. The all-reduce of
  // ranks 1, 2 and 3 waits for a step of 1000 ps on rank 3. Its 1000 bytes share the link into rank 1 from 1000 to
  // 3000.
  Builder b(4);
  b.step_ps = 1000;
  b.Transfer(0, 1, 3000);
  b.Add(3, FORWARD).set_segment(0);
  b.AllReduce({1, 2, 3}, 1000);
  b.program.mutable_templates(3)->mutable_body(1)->add_deps()->set_action(0);
  const auto result = b.Run(StarNetwork(4, 1'000'000'000'000, {10}, 0));
  ASSERT_TRUE(result.ok()) << result.status();
  const auto event = [&](int rank, int index) {
    const EngineEvent& e = result->ranks[rank].events[index];
    return std::make_tuple(e.ready.ps, e.start.ps, e.end.ps, e.finish.ps);
  };
  EXPECT_EQ(event(0, 0), std::make_tuple(0, 0, 4000, 4000));
  EXPECT_EQ(event(1, 0), std::make_tuple(0, 0, 4000, 4010));
  EXPECT_EQ(event(1, 1), std::make_tuple(0, 1000, 3000, 3010));
  EXPECT_EQ(event(2, 0), std::make_tuple(0, 1000, 3000, 3010));
  EXPECT_EQ(event(3, 0), std::make_tuple(0, 0, 1000, 1000));
  EXPECT_EQ(event(3, 1), std::make_tuple(1000, 1000, 3000, 3010));
  EXPECT_EQ(result->ranks[3].exposed_communication.ps, 2010);
  EXPECT_EQ(result->makespan.ps, 4010);
}

TEST(EngineFlow, FixedPartsLeaveTheLinkToOthers) {
  // Both messages wait 500 ps first and then share the link into rank 0: 500 + 2 x 1000.
  Builder b(3);
  b.Transfer(1, 0, 1000);
  b.Transfer(2, 0, 1000, /*lane=*/1);
  const auto result = b.Run(StarNetwork(3, 1'000'000'000'000, {}, 500));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->makespan.ps, 2500);
}

TEST(EngineFlow, StopsWhenSteadyAndCountsRepetitions) {
  Builder b(2);
  b.Transfer(0, 1, 1000);
  EngineOptions options = {.repetitions = 16, .stop_when_steady = true};
  const auto result = b.Run(StarNetwork(2, 1'000'000'000'000, {3}, 0), options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->repetition_finish, (std::vector<Time>{{1003}, {2003}, {3003}}));
}

TEST(EngineFlow, RefusesTransfersBeyondTheTimeLimit) {
  Builder b(2);
  b.Transfer(0, 1, int64_t{1} << 60);
  const auto result = b.Run(StarNetwork(2, 1, {}, 0));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("2^61 picoseconds"));
}

// A network that breaks its promise: the latency of a collective depends on its size.
class FickleNetwork : public StarNetwork {
 public:
  FickleNetwork() : StarNetwork(2, 1'000'000'000'000, {}, 0) {}

  absl::StatusOr<Flow> CollectiveFlow(const CollectiveCall& call, const GroupForm& form,
                                      absl::Span<const int64_t> members) const override {
    auto flow = StarNetwork::CollectiveFlow(call, form, members);
    flow->latency = {call.parts[0].elements};
    return flow;
  }
};

TEST(EngineFlow, CollectivesOfAGroupHaveOneLatency) {
  Builder b(2);
  b.AllReduce({0, 1}, 1000);
  b.AllReduce({0, 1}, 1000);
  const auto alike = b.Run(FickleNetwork());
  ASSERT_TRUE(alike.ok()) << alike.status();
  EXPECT_EQ(alike->makespan.ps, 3000);
  b.AllReduce({0, 1}, 2000);
  const auto result = b.Run(FickleNetwork());
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("different latencies"));
}

// Times depend on (source, destination, bytes) or on the group. The network gives them in one of two forms: as known
// times, or as flows that consist of fixed parts only.
class TableNetwork : public NetworkModel {
 public:
  explicit TableNetwork(bool flows) : capacities_(flows ? 1 : 0, 1) {}

  absl::Span<const int64_t> LinkCapacities() const override { return capacities_; }
  absl::StatusOr<TransferTime> Transfer(int64_t source, int64_t destination, int64_t bytes) const override {
    return TransferTime{{(source * 3 + destination * 5 + bytes) % 7}, {(source + destination) % 3}};
  }
  absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm&,
                                          absl::Span<const int64_t> members) const override {
    const int64_t bytes = call.parts[0].elements * call.parts[0].element_bytes;
    return TransferTime{{(members[0] + bytes) % 6}, {members.back() % 3}};
  }
  absl::StatusOr<Flow> TransferFlow(int64_t source, int64_t destination, int64_t bytes) const override {
    return Fixed(*Transfer(source, destination, bytes));
  }
  absl::StatusOr<Flow> CollectiveFlow(const CollectiveCall& call, const GroupForm& form,
                                      absl::Span<const int64_t> members) const override {
    return Fixed(*Collective(call, form, members));
  }

 private:
  static Flow Fixed(TransferTime time) {
    return {.phases = {{.fixed_ps = time.occupancy.ps / 2}, {.fixed_ps = (time.occupancy.ps + 1) / 2}},
            .latency = time.latency};
  }

  const std::vector<int64_t> capacities_;
};

std::string Describe(const EngineResult& result) {
  std::string text = absl::StrCat(result.makespan.ps, " ", result.steps, "\n");
  for (const RankResult& rank : result.ranks) {
    absl::StrAppend(&text, "rank ", rank.busy.ps, " ", rank.exposed_communication.ps, " ", rank.live_peak, "\n");
    // If two things happen at one instant, either may count as the last one that a rank waited for. So this compares
    // only the sums of idle times.
    Time idle;
    for (const Time time : rank.idle) idle += time;
    absl::StrAppend(&text, idle.ps, "\n");
    std::map<std::tuple<int, int, int>, std::string> events;
    for (const EngineEvent& e : rank.events) {
      events[{e.repetition, e.action, e.step}] =
          absl::StrCat(e.stream, " ", e.ready.ps, " ", e.start.ps, " ", e.end.ps, " ", e.finish.ps, "\n");
    }
    for (const auto& [key, event] : events) text += event;
  }
  return text;
}

TEST(EngineFlow, FlowsOfKnownLengthAreLikeAnyOther) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Program program = RandomEngineProgram(seed);
    const auto duration = [&](int segment, int step, ActionKind kind) -> absl::StatusOr<Time> {
      return Time{(segment * 5 + step * 3 + kind) % 6};
    };
    const auto view = BuildProgramView(program, duration, {});
    ASSERT_TRUE(view.ok()) << view.status();
    const EngineOptions options = {.repetitions = 1 + static_cast<int>(seed % 3), .trace = true};
    const auto told = RunEngine(*view, TableNetwork(/*flows=*/false), options);
    const auto flows = RunEngine(*view, TableNetwork(/*flows=*/true), options);
    ASSERT_TRUE(told.ok()) << told.status();
    ASSERT_TRUE(flows.ok()) << flows.status();
    ASSERT_EQ(Describe(*told), Describe(*flows));
  }
}

}  // namespace
}  // namespace weft::sim
