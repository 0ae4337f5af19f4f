// Collectives inside segments, calculated by hand: when each step starts, what is hidden, and what a rank waited for.
#include <map>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/engine/engine.h"
#include "simulator/naive/naive_simulator.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kLatency = 2;

// Returns the occupancy of a collective in ps, which equals the bytes of its first buffer on one member.
int64_t Occupancy(CollectiveKind kind, int64_t whole_bytes, int64_t members) {
  return kind == CollectiveKind::kAllGather ? whole_bytes / members : whole_bytes;
}

class ByteNetwork : public NetworkModel {
 public:
  absl::StatusOr<TransferTime> Transfer(int64_t, int64_t, int64_t) const override { return TransferTime{}; }
  absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm&,
                                          absl::Span<const int64_t> members) const override {
    const int64_t bytes = call.parts[0].elements * call.parts[0].element_bytes;
    return TransferTime{{Occupancy(call.kind, bytes, static_cast<int64_t>(members.size()))}, {kLatency}};
  }
};

// Builds a program for two ranks on axis x. A compute step takes as many ps as its work has flops. Value i has 10 (i +
// 1) bytes.
class Builder {
 public:
  explicit Builder(bool pinned = false) {
    program.mutable_mesh()->add_axes()->set_name("x");
    program.mutable_mesh()->mutable_axes(0)->set_size(2);
    for (int i = 0; i < (pinned ? 2 : 1); ++i) {
      Template* t = program.add_templates();
      if (!pinned) continue;
      t->add_pins()->set_axis("x");
      t->mutable_pins(0)->set_index(i);
    }
  }

  Segment& NewSegment() {
    Segment& segment = *program.add_segments();
    for (int i = 0; i < 20; ++i) {
      segment.add_values()->set_dtype(UINT8);
      segment.mutable_values(i)->add_shape(10 * (i + 1));
    }
    return segment;
  }

  static Step& Compute(Segment& segment, const std::string& name, int64_t time, const std::vector<int>& deps = {}) {
    Step& step = *segment.add_steps();
    step.set_name(name);
    step.mutable_work()->set_flops(time);
    step.mutable_deps()->Add(deps.begin(), deps.end());
    return step;
  }

  static Step& Collective(Segment& segment, const std::string& name, Kernel kernel, Purpose purpose, int64_t time,
                          const std::vector<int>& deps) {
    Step& step = Compute(segment, name, 0, deps);
    step.set_stream(COLLECTIVE);
    step.set_kernel(kernel);
    step.add_inputs(static_cast<int>(time / 10 - 1));
    step.add_outputs(static_cast<int>((kernel == GROUP_ALL_GATHER ? 2 * time : time) / 10 - 1));
    step.mutable_collective()->set_purpose(purpose);
    step.mutable_collective()->set_algorithm("ring");
    step.mutable_collective()->mutable_group()->add_axes()->set_axis("x");
    return step;
  }

  Action& Add(ActionKind kind, int segment, int t = 0) {
    Action& action = *program.mutable_templates(t)->add_body();
    action.set_id(program.templates(t).body_size() - 1);
    action.set_kind(kind);
    action.set_segment(segment);
    return action;
  }

  // Runs the program on the engine and on the oracle, which must agree.
  EngineResult Run() {
    const auto time = [this](int segment, int step) { return program.segments(segment).steps(step).work().flops(); };
    const auto view = BuildProgramView(
        program, [&](int segment, int step, ActionKind) -> absl::StatusOr<Time> { return Time{time(segment, step)}; },
        {});
    EXPECT_TRUE(view.ok()) << view.status();
    if (!view.ok()) return {};
    const auto result = RunEngine(*view, ByteNetwork(), {.trace = true});
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {};
    NaiveDurations durations;
    durations.step = [&](const NaiveStepCall& call) { return time(call.segment, call.step); };
    durations.collective = [](const NaiveCollective& c) { return NaiveTime{c.source_bytes[0], kLatency}; };
    const NaiveResult naive = SimulateNaively(program, durations);
    EXPECT_TRUE(naive.complete);
    EXPECT_EQ(naive.makespan, result->makespan.ps);
    std::map<std::string, std::pair<int64_t, int64_t>> own, other;
    for (size_t rank = 0; rank < result->ranks.size(); ++rank) {
      const TemplateView& t = view->templates[view->template_of_rank[rank]];
      for (const EngineEvent& event : result->ranks[rank].events) {
        const Action& action = *t.actions[event.action].action;
        const std::string name = program.segments(action.segment()).steps(event.step).name();
        own[std::to_string(rank) + " " + std::to_string(action.id()) + " " + std::to_string(event.step)] = {
            event.start.ps, event.finish.ps};
        if (rank == 0) starts[name] = event.start.ps;
      }
    }
    for (const NaiveStep& step : naive.steps) {
      other[std::to_string(step.rank) + " " + std::to_string(step.action_id) + " " + std::to_string(step.step)] = {
          step.start, step.finish};
    }
    EXPECT_EQ(own, other);
    return *result;
  }

  static int64_t Idle(const EngineResult& result, IdleReason reason, int rank = 0) {
    return result.ranks[rank].idle[static_cast<int>(reason)].ps;
  }

  Program program;
  // Start times of the steps of rank 0, by name.
  std::map<std::string, int64_t> starts;
};

TEST(CollectiveSteps, ABlockingOneIsExposedWithItsLatency) {
  Builder b;
  Segment& segment = b.NewSegment();
  b.Compute(segment, "product", 100);
  b.Collective(segment, "sum", GROUP_ALL_REDUCE, TENSOR, 50, {0});
  b.Compute(segment, "bias", 10, {1});
  b.Add(FORWARD, 0);
  b.Add(FORWARD, 0);
  const EngineResult result = b.Run();
  EXPECT_EQ(result.makespan.ps, 2 * (100 + 50 + kLatency + 10));
  EXPECT_EQ(b.Idle(result, IdleReason::kTensorCollective), 2 * (50 + kLatency));
  EXPECT_EQ(result.ranks[0].exposed_communication.ps, 2 * (50 + kLatency));
  EXPECT_EQ(result.ranks[1].busy.ps, 220);
  // Every step of every rank is counted.
  EXPECT_EQ(result.steps, 2 * 2 * 3);
}

TEST(CollectiveSteps, TheyStartWhenTheSlowestMemberIsReady) {
  Builder b(/*pinned=*/true);
  for (const int64_t time : {100, 30}) {
    Segment& segment = b.NewSegment();
    b.Compute(segment, "product", time);
    b.Collective(segment, "sum", GROUP_ALL_REDUCE, TENSOR, 50, {0});
    b.Compute(segment, "bias", 10, {1});
  }
  // One member lists the coordinates of the group. The other member lists none, which means all of them. Both name the
  // same group.
  AxisSubset* axis =
      b.program.mutable_segments(1)->mutable_steps(1)->mutable_collective()->mutable_group()->mutable_axes(0);
  axis->add_indices(0);
  axis->add_indices(1);
  b.Add(FORWARD, 0, 0);
  b.Add(FORWARD, 1, 1);
  const EngineResult result = b.Run();
  EXPECT_EQ(b.starts["sum"], 100);
  EXPECT_EQ(result.makespan.ps, 100 + 50 + kLatency + 10);
  EXPECT_EQ(b.Idle(result, IdleReason::kTensorCollective, 0), 50 + kLatency);
  EXPECT_EQ(b.Idle(result, IdleReason::kTensorCollective, 1), 70 + 50 + kLatency);
  // Communication counts from the start of the collective, not from when the first member waits for it.
  EXPECT_EQ(result.ranks[1].exposed_communication.ps, 50 + kLatency);
}

TEST(CollectiveSteps, TheSumOfAnInputsGradientRunsUnderTheWeightsProduct) {
  for (const int64_t product : {30, 80}) {
    Builder b;
    Segment& segment = b.NewSegment();
    b.Compute(segment, "input gradient", 100);
    b.Collective(segment, "sum", GROUP_ALL_REDUCE, TENSOR, 50, {0});
    b.Compute(segment, "weight gradient", product);
    b.Compute(segment, "next", 10, {1});
    b.Add(BACKWARD, 0);
    const EngineResult result = b.Run();
    const int64_t exposed = std::max<int64_t>(0, 50 + kLatency - product);
    EXPECT_EQ(result.makespan.ps, 100 + product + exposed + 10);
    EXPECT_EQ(b.Idle(result, IdleReason::kTensorCollective), exposed);
    EXPECT_EQ(result.ranks[0].exposed_communication.ps, exposed);
  }
}

TEST(CollectiveSteps, WeightsAreGatheredAhead) {
  Builder b;
  Segment& segment = b.NewSegment();
  b.Collective(segment, "gather 1", GROUP_ALL_GATHER, GATHER_WEIGHTS, 40, {});
  b.Collective(segment, "gather 2", GROUP_ALL_GATHER, GATHER_WEIGHTS, 40, {});
  b.Compute(segment, "product 1", 100, {0});
  b.Compute(segment, "product 2", 100, {1});
  b.Add(FORWARD, 0);
  const EngineResult result = b.Run();
  // The second gather follows on the same communicator without waiting for the latency of the first.
  EXPECT_EQ(b.starts["gather 2"], 40);
  EXPECT_EQ(b.starts["product 1"], 40 + kLatency);
  EXPECT_EQ(b.starts["product 2"], 140 + kLatency);
  EXPECT_EQ(result.makespan.ps, 240 + kLatency);
  EXPECT_EQ(b.Idle(result, IdleReason::kGatheredWeights), 40 + kLatency);
}

TEST(CollectiveSteps, CommunicatorsOfTwoPurposesRunAtTheSameTime) {
  Builder b;
  Segment& segment = b.NewSegment();
  b.Collective(segment, "gather", GROUP_ALL_GATHER, GATHER_WEIGHTS, 40, {});
  b.Collective(segment, "sum", GROUP_ALL_REDUCE, TENSOR, 60, {});
  b.Collective(segment, "sum again", GROUP_ALL_REDUCE, TENSOR, 60, {1});
  b.Compute(segment, "product", 10, {0, 2});
  b.Add(FORWARD, 0);
  const EngineResult result = b.Run();
  EXPECT_EQ(b.starts["gather"], 0);
  EXPECT_EQ(b.starts["sum"], 0);
  // The second sum waits until the first one is finished, not only until its stream is free.
  EXPECT_EQ(b.starts["sum again"], 60 + kLatency);
  EXPECT_EQ(b.starts["product"], 2 * (60 + kLatency));
}

TEST(CollectiveSteps, DetachedOnesAreWaitedForByName) {
  Builder b;
  Segment& backward = b.NewSegment();
  b.Compute(backward, "weight gradient", 100);
  b.Collective(backward, "scatter", GROUP_REDUCE_SCATTER, SCATTER_GRADIENTS, 70, {0}).set_detached(true);
  b.Compute(backward, "input gradient", 20);
  b.Compute(b.NewSegment(), "free", 10);
  b.Compute(b.NewSegment(), "optimizer", 5);
  b.Add(BACKWARD, 0);
  b.Add(FORWARD, 1).add_deps()->set_action(0);
  Dependency* dep = b.Add(OPTIMIZER_STEP, 2).add_deps();
  dep->set_action(0);
  dep->set_detached(true);
  const EngineResult result = b.Run();
  EXPECT_EQ(b.starts["scatter"], 100);
  EXPECT_EQ(b.starts["free"], 120);
  EXPECT_EQ(b.starts["optimizer"], 170 + kLatency);
  EXPECT_EQ(b.Idle(result, IdleReason::kScatteredGradients), 40 + kLatency);
  EXPECT_EQ(b.Idle(result, IdleReason::kHostCopy), 0);
}

TEST(CollectiveSteps, AnActionThatEndsWithACollectiveIsFinishedWithIt) {
  Builder b;
  Segment& segment = b.NewSegment();
  b.Compute(segment, "product", 100);
  b.Collective(segment, "sum", GROUP_ALL_REDUCE, TENSOR, 50, {0});
  b.Compute(b.NewSegment(), "other", 10);
  b.Compute(b.NewSegment(), "next", 10);
  b.Add(FORWARD, 0);
  b.Add(FORWARD, 1);
  b.Add(FORWARD, 2).add_deps()->set_action(0);
  const EngineResult result = b.Run();
  EXPECT_EQ(b.starts["other"], 100);
  EXPECT_EQ(b.starts["next"], 150 + kLatency);
  EXPECT_EQ(b.Idle(result, IdleReason::kTensorCollective), 40 + kLatency);
}

// Layers of Megatron's tensor parallelism over 4 devices of a node take the closed-form time on an idle network.
TEST(CollectiveSteps, BlockingRingsInClosedForm) {
  Builder b;
  b.program.mutable_mesh()->mutable_axes(0)->set_size(4);
  Segment& segment = b.NewSegment();
  segment.mutable_values(0)->set_dtype(BF16);
  segment.mutable_values(0)->set_shape(0, 2'000'000);
  constexpr int kLayers = 3;
  for (int half = 0; half < 2 * kLayers; ++half) {
    b.Compute(segment, "products", 7'000'000, half == 0 ? std::vector<int>{} : std::vector<int>{2 * half - 1});
    Step& sum = b.Collective(segment, "sum", GROUP_ALL_REDUCE, TENSOR, 10, {2 * half});
    sum.set_inputs(0, 0);
  }
  b.Add(FORWARD, 0);
  Cluster cluster;
  cluster.set_devices_per_node(4);
  cluster.mutable_intra_node()->set_bytes_per_second(1e11);
  cluster.mutable_intra_node()->set_latency_seconds(1e-6);
  cluster.mutable_intra_node()->set_overhead_seconds(5e-7);
  const auto network = (*FindNetworkModel("analytic"))->make(b.program.mesh(), cluster);
  const auto view =
      BuildProgramView(b.program, [](int, int, ActionKind) -> absl::StatusOr<Time> { return Time{7'000'000}; }, {});
  ASSERT_TRUE(view.ok()) << view.status();
  const auto result = RunEngine(*view, *network, {});
  ASSERT_TRUE(result.ok()) << result.status();
  // 2(n-1) (overhead + latency) + 2(n-1)/n S/B with S = 4 MB: 6 x 1.5 + 60 us.
  const int64_t expected = 2 * kLayers * (7'000'000 + 9'000'000 + 60'000'000);
  EXPECT_GE(result->makespan.ps, expected);
  EXPECT_LE(result->makespan.ps, expected + 2 * kLayers);
}

TEST(CollectiveSteps, ANetworkWhoseLatencyVariesIsRefused) {
  class Varying : public ByteNetwork {
   public:
    absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm&,
                                            absl::Span<const int64_t>) const override {
      return TransferTime{{1}, {call.parts[0].elements}};
    }
  };
  Builder b;
  Segment& segment = b.NewSegment();
  b.Collective(segment, "sum", GROUP_ALL_REDUCE, TENSOR, 50, {});
  b.Collective(segment, "sum", GROUP_ALL_REDUCE, TENSOR, 60, {});
  b.Add(FORWARD, 0);
  const auto view =
      BuildProgramView(b.program, [](int, int, ActionKind) -> absl::StatusOr<Time> { return Time{}; }, {});
  ASSERT_TRUE(view.ok()) << view.status();
  const auto result = RunEngine(*view, Varying(), {});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("latencies"));
}

TEST(CollectiveSteps, RefusesStepsThatAreNoCollective) {
  Builder b;
  Segment& segment = b.NewSegment();
  b.Collective(segment, "sum", GROUP_ALL_REDUCE, TENSOR, 50, {}).set_kernel(ADD);
  b.Add(FORWARD, 0);
  const auto refused = [&](const std::string& what) {
    const auto view =
        BuildProgramView(b.program, [](int, int, ActionKind) -> absl::StatusOr<Time> { return Time{}; }, {});
    EXPECT_EQ(view.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(view.status().message()), HasSubstr(what));
  };
  refused("no collective");
  segment.mutable_steps(0)->set_kernel(GROUP_ALL_REDUCE);
  segment.mutable_steps(0)->set_inputs(0, 99);
  refused("value 99");
  segment.mutable_steps(0)->clear_inputs();
  refused("0 inputs and 1 outputs");
}

}  // namespace
}  // namespace weft::sim
