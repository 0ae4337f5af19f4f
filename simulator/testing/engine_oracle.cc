#include "simulator/testing/engine_oracle.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "simulator/engine/hash_below_testing.h"
#include "simulator/network/network_model.h"
#include "simulator/program/program_view.h"

namespace weft::sim {
namespace {

constexpr int kLinks = 4;

// Passes the oracle's durations to the engine as a network model.
class TableNetwork : public NetworkModel {
 public:
  explicit TableNetwork(const NaiveDurations& durations) : durations_(durations) {}

  absl::Span<const int64_t> LinkCapacities() const override { return durations_.capacities; }
  absl::StatusOr<Flow> TransferFlow(int64_t source, int64_t destination, int64_t bytes) const override {
    return FlowOf(durations_.transfer(source, destination, bytes));
  }
  absl::StatusOr<Flow> CollectiveFlow(const CollectiveCall& call, const GroupForm& form,
                                      absl::Span<const int64_t> members) const override {
    return FlowOf(durations_.collective(NaiveCall(call, members)));
  }
  absl::StatusOr<TransferTime> Transfer(int64_t source, int64_t destination, int64_t bytes) const override {
    return TimeOf(durations_.transfer(source, destination, bytes));
  }
  absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm& form,
                                          absl::Span<const int64_t> members) const override {
    return TimeOf(durations_.collective(NaiveCall(call, members)));
  }

 private:
  static TransferTime TimeOf(const NaiveTime& time) { return {{time.occupancy}, {time.latency}}; }

  static Flow FlowOf(const NaiveTime& time) {
    Flow flow;
    flow.latency = {time.latency};
    for (const NaivePhase& phase : time.phases) {
      flow.phases.push_back({phase.fixed, phase.bytes, {phase.loads.begin(), phase.loads.end()}});
    }
    return flow;
  }

  static NaiveCollective NaiveCall(const CollectiveCall& call, absl::Span<const int64_t> members) {
    NaiveCollective collective;
    collective.kind = static_cast<NaiveCollective::Kind>(call.kind);
    collective.algorithm = std::string(call.algorithm->name);
    collective.members = {members.begin(), members.end()};
    const int64_t parts = call.kind == CollectiveKind::kAllGather ? static_cast<int64_t>(members.size()) : 1;
    for (const CollectivePart& part : call.parts) {
      collective.source_bytes.push_back(part.elements * part.element_bytes / parts);
    }
    return collective;
  }

  const NaiveDurations& durations_;
};

// (rank, list, repetition, action id, step) -> (ready, start, end, finish).
using Times = std::map<std::tuple<int64_t, int, int, int, int>, std::tuple<int64_t, int64_t, int64_t, int64_t>>;

Times EngineTimes(const Program& program, const EngineResult& result, bool exceeded) {
  Times times;
  for (size_t rank = 0; rank < result.ranks.size(); ++rank) {
    int t = -1;
    for (int i = 0; i < program.templates_size(); ++i) {
      const Template& candidate = program.templates(i);
      int64_t stride = 1;
      bool match = true;
      for (const MeshAxis& axis : program.mesh().axes()) {
        const int64_t index = static_cast<int64_t>(rank) / stride % axis.size();
        for (const Coordinate& pin : candidate.pins())
          match = match && (pin.axis() != axis.name() || pin.index() == index);
        stride *= axis.size();
      }
      if (match) t = i;
    }
    std::vector<std::pair<int, int>> actions;
    const auto add = [&](int list, const auto& all) {
      for (const Action& action : all) {
        if (exceeded || !action.if_exceeded()) actions.push_back({list, action.id()});
      }
    };
    add(0, program.templates(t).prologue());
    add(1, program.templates(t).body());
    add(2, program.templates(t).epilogue());
    for (const EngineEvent& event : result.ranks[rank].events) {
      const auto [list, id] = actions[event.action];
      const bool inserted = times
                                .insert({{static_cast<int64_t>(rank), list, event.repetition, id, event.step},
                                         {event.ready.ps, event.start.ps, event.end.ps, event.finish.ps}})
                                .second;
      EXPECT_TRUE(inserted) << "a step was run twice";
    }
  }
  return times;
}

Times NaiveTimes(const NaiveResult& result) {
  Times times;
  for (const NaiveStep& step : result.steps) {
    times[{step.rank, step.list, step.repetition, step.action_id, step.step}] = {step.ready, step.start, step.end,
                                                                                 step.finish};
  }
  return times;
}

}  // namespace

NaiveDurations RandomDurations(uint64_t seed, const DurationOptions& options) {
  NaiveDurations durations;
  durations.step = [=](const NaiveStepCall& call) {
    const int32_t device = options.device_of_rank.empty() ? 0 : options.device_of_rank[call.rank];
    const int64_t cost = HashBelow(seed, {1, call.segment, call.step, call.kind, device}, 6);
    // A collective may add nothing: some steps are not slowed down at all, some only by the first collective.
    int64_t more = 0;
    for (int load = 1; load <= call.load; ++load)
      more += HashBelow(seed, {6, call.segment, call.step, device, load}, 4);
    return options.load && cost > 0 ? cost + more : cost;
  };
  const auto time = [=](int64_t occupancy, int64_t latency, int64_t what) {
    if (!options.flows) return NaiveTime{occupancy, latency};
    NaiveTime time = {0, latency};
    for (int64_t i = HashBelow(seed, {7, what}, 4); i > 0; --i) {
      NaivePhase& phase = time.phases.emplace_back();
      phase.fixed = HashBelow(seed, {8, what, i}, 3);
      phase.bytes = std::max<int64_t>(0, HashBelow(seed, {9, what, i}, 8) - 2);
      for (int link = 0; link < kLinks; ++link) {
        const int64_t load = HashBelow(seed, {10, what, i, link}, 5) - 2;
        if (load > 0) phase.loads[link] = load;
      }
      if (phase.loads.empty()) phase.loads[static_cast<int>(what % kLinks)] = 1;
    }
    return time;
  };
  durations.transfer = [=](int64_t source, int64_t destination, int64_t bytes) {
    return time(HashBelow(seed, {2, source, destination, bytes}, 5),
                HashBelow(seed, {3, source, destination, bytes}, 3),
                HashBelow(seed, {11, source, destination, bytes}, 1 << 20));
  };
  durations.collective = [=](const NaiveCollective& c) {
    const int64_t group = c.members.front() + 100 * c.members.back() + 10000 * static_cast<int64_t>(c.members.size());
    const int64_t algorithm = static_cast<int64_t>(c.algorithm.size());
    return time(HashBelow(seed, {4, group, c.kind, algorithm, c.source_bytes.front()}, 7),
                HashBelow(seed, {5, group}, 3),
                HashBelow(seed, {12, group, c.kind, algorithm, c.source_bytes.front()}, 1 << 20));
  };
  // Links carry 0.5 to 2.5 bytes per picosecond, so some are shared unevenly.
  for (int link = 0; options.flows && link < kLinks; ++link) {
    durations.capacities.push_back((1 + HashBelow(seed, {13, link}, 5)) * 500'000'000'000);
  }
  return durations;
}

absl::StatusOr<EngineResult> Simulate(const Program& program, const NaiveDurations& durations,
                                      const EngineOptions& options, bool join_steps, bool exceeded,
                                      const std::vector<int32_t>& device_of_rank) {
  const auto costs = [&](const StepUse& use) -> absl::StatusOr<LoadTimes> {
    const auto first = std::find(device_of_rank.begin(), device_of_rank.end(), use.device);
    LoadTimes times;
    for (int load = 0; load < kLoads; ++load) {
      times[load] = {durations.step({.rank = first - device_of_rank.begin(),
                                     .kind = use.kind,
                                     .segment = use.segment,
                                     .step = use.step,
                                     .load = load})};
    }
    // The cost of a copy does not depend on the load.
    if (program.segments(use.segment).steps(use.step).stream() != COMPUTE) times.fill(times[0]);
    return times;
  };
  const auto view = BuildProgramView(
      program, costs, {.join_steps = join_steps, .exceeded = exceeded, .device_of_rank = device_of_rank});
  if (!view.ok()) return view.status();
  return RunEngine(*view, TableNetwork(durations), options);
}

void ExpectAgreement(const Program& program, const NaiveDurations& durations, const Agreement& how) {
  NaiveDurations jittered = durations;
  jittered.step = [&](const NaiveStepCall& call) {
    const int64_t cost = durations.step(call);
    if (!how.jitter.any() || program.segments(call.segment).steps(call.step).stream() != COMPUTE) return cost;
    const int64_t factor = how.jitter.Factor(call.rank, call.repetition, call.action_id, call.step);
    return (cost * factor + (1 << 30) - 1) >> 30;
  };
  const NaiveResult naive = SimulateNaively(program, jittered,
                                            {.repetitions = how.repetitions,
                                             .slots_per_node = how.slots,
                                             .turn = how.turn,
                                             .devices_per_node = how.devices_per_node,
                                             .exceeded = how.exceeded});
  ASSERT_TRUE(naive.complete);
  const EngineOptions options = {.repetitions = how.repetitions,
                                 .devices_per_node = how.devices_per_node,
                                 .compute_slots_per_node = how.slots,
                                 .compute_turn = {how.turn},
                                 .trace = true,
                                 .jitter = how.jitter,
                                 .stop_when_steady = false};
  const auto engine = Simulate(program, durations, options, how.join_steps, how.exceeded, how.device_of_rank);
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ(EngineTimes(program, *engine, how.exceeded), NaiveTimes(naive));
  EXPECT_EQ(engine->makespan.ps, naive.makespan);
  EXPECT_EQ(engine->steps, static_cast<int64_t>(naive.steps.size()));
  std::vector<int64_t> finish;
  for (const Time time : engine->repetition_finish) finish.push_back(time.ps);
  EXPECT_EQ(finish, naive.repetition_finish);
  std::vector<int64_t> peaks;
  for (const RankResult& rank : engine->ranks) {
    peaks.push_back(rank.live_peak);
    int64_t by_class = 0;
    for (const int64_t bytes : rank.live_at_peak) by_class += bytes;
    EXPECT_EQ(by_class, rank.live_peak);
    int64_t idle = 0;
    for (const Time time : rank.idle) idle += time.ps;
    EXPECT_EQ(idle + rank.busy.ps, engine->makespan.ps);
  }
  EXPECT_EQ(peaks, naive.live_peak);
}

}  // namespace weft::sim
