#include "simulator/engine_oracle.h"

#include <initializer_list>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "simulator/network/network_model.h"
#include "simulator/program_view.h"

namespace weft {
namespace {

int64_t Mix(uint64_t seed, std::initializer_list<int64_t> values, int64_t bound) {
  uint64_t hash = seed;
  for (const int64_t value : values) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return static_cast<int64_t>(hash % static_cast<uint64_t>(bound));
}

// The same durations behind the engine's interface.
class TableNetwork : public NetworkModel {
 public:
  explicit TableNetwork(const NaiveDurations& durations) : durations_(durations) {}

  absl::StatusOr<TransferTime> Transfer(int64_t source, int64_t destination, int64_t bytes) const override {
    const auto [occupancy, latency] = durations_.transfer(source, destination, bytes);
    return TransferTime{{occupancy}, {latency}};
  }
  absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm& form,
                                          absl::Span<const int64_t> members) const override {
    NaiveCollective collective;
    collective.kind = static_cast<NaiveCollective::Kind>(call.kind);
    collective.algorithm = std::string(call.algorithm->name);
    collective.members = {members.begin(), members.end()};
    const int64_t parts = call.kind == CollectiveKind::kAllGather ? static_cast<int64_t>(members.size()) : 1;
    for (const CollectivePart& part : call.parts) {
      collective.source_bytes.push_back(part.elements * part.element_bytes / parts);
    }
    const auto [occupancy, latency] = durations_.collective(collective);
    return TransferTime{{occupancy}, {latency}};
  }

 private:
  const NaiveDurations& durations_;
};

// (list, repetition, action id, step) -> (ready, start, end, finish), per rank.
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

NaiveDurations RandomDurations(uint64_t seed) {
  NaiveDurations durations;
  durations.step = [=](int segment, int step, ActionKind kind) { return Mix(seed, {1, segment, step, kind}, 6); };
  durations.transfer = [=](int64_t source, int64_t destination, int64_t bytes) {
    return std::make_pair(Mix(seed, {2, source, destination, bytes}, 5), Mix(seed, {3, source, destination, bytes}, 3));
  };
  durations.collective = [=](const NaiveCollective& c) {
    const int64_t group = c.members.front() + 100 * c.members.back() + 10000 * static_cast<int64_t>(c.members.size());
    const int64_t algorithm = static_cast<int64_t>(c.algorithm.size());
    return std::make_pair(Mix(seed, {4, group, c.kind, algorithm, c.source_bytes.front()}, 7),
                          Mix(seed, {5, group}, 3));
  };
  return durations;
}

absl::StatusOr<EngineResult> Simulate(const Program& program, const NaiveDurations& durations,
                                      const EngineOptions& options, bool join_steps, bool exceeded) {
  const auto duration = [&](int segment, int step, ActionKind kind) -> absl::StatusOr<Time> {
    return Time{durations.step(segment, step, kind)};
  };
  const auto view = BuildProgramView(program, duration, {.join_steps = join_steps, .exceeded = exceeded});
  if (!view.ok()) return view.status();
  return RunEngine(*view, TableNetwork(durations), options);
}

void ExpectAgreement(const Program& program, const NaiveDurations& durations, int repetitions, int devices_per_node,
                     int slots, bool join_steps, int64_t turn, bool exceeded) {
  const NaiveResult naive = SimulateNaively(program, durations, repetitions, devices_per_node, slots, turn, exceeded);
  ASSERT_TRUE(naive.complete);
  const EngineOptions options = {.repetitions = repetitions,
                                 .devices_per_node = devices_per_node,
                                 .compute_slots_per_node = slots,
                                 .compute_turn = {turn},
                                 .trace = true,
                                 .stop_when_steady = false};
  const auto engine = Simulate(program, durations, options, join_steps, exceeded);
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ(EngineTimes(program, *engine, exceeded), NaiveTimes(naive));
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

}  // namespace weft
