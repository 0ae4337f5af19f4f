#include "simulator/metrics/critical_path.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/program/view_actions.h"
#include "simulator/testing/test_programs.h"
#include "tests/random_program.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

int64_t Hash(uint64_t seed, std::initializer_list<int64_t> values, int64_t bound) {
  uint64_t hash = seed + 1;
  for (const int64_t value : values) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return static_cast<int64_t>(hash % static_cast<uint64_t>(bound));
}

// A network with small times, zero among them, so that many things happen at one instant.
class HashNetwork : public NetworkModel {
 public:
  explicit HashNetwork(uint64_t seed) : seed_(seed) {}
  absl::StatusOr<TransferTime> Transfer(int64_t source, int64_t destination, int64_t bytes) const override {
    return TransferTime{{Hash(seed_, {1, source, destination, bytes}, 5)},
                        {Hash(seed_, {2, source, destination, bytes}, 3)}};
  }
  absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm&,
                                          absl::Span<const int64_t> members) const override {
    const int64_t group = members.front() + 100 * members.back();
    return TransferTime{{Hash(seed_, {3, group, call.parts.front().elements}, 7)}, {Hash(seed_, {4, group}, 3)}};
  }

 private:
  uint64_t seed_;
};

// Duration of a step by segment, step and kind.
using Durations = std::function<int64_t(int, int, ActionKind)>;

struct TracedRun {
  Program program;
  ProgramView view;
  EngineOptions options;
  EngineResult result;
};

void RunTraced(const Durations& durations, const NetworkModel& network, bool join, TracedRun& run) {
  const auto duration = [&](int segment, int step, ActionKind kind) -> absl::StatusOr<Time> {
    return Time{durations(segment, step, kind)};
  };
  absl::StatusOr<ProgramView> view = BuildProgramView(run.program, duration, {.join_steps = join});
  ASSERT_TRUE(view.ok()) << view.status();
  run.view = *std::move(view);
  run.options.trace = true;
  absl::StatusOr<EngineResult> result = RunEngine(run.view, network, run.options);
  ASSERT_TRUE(result.ok()) << result.status();
  run.result = *std::move(result);
}

const EngineEvent& At(const TracedRun& run, TracedStep step) { return run.result.ranks[step.rank].events[step.event]; }
const TemplateView& TemplateOf(const TracedRun& run, int32_t rank) {
  return run.view.templates[run.view.template_of_rank[rank]];
}
const ActionView& ActionOf(const TracedRun& run, TracedStep step) {
  return TemplateOf(run, step.rank).actions[At(run, step).action];
}
const StreamKey& KeyOf(const TracedRun& run, TracedStep step) {
  return TemplateOf(run, step.rank).streams[At(run, step).stream].key;
}
bool Computes(const TracedRun& run, TracedStep step) { return KeyOf(run, step).kind == StreamClass::kCompute; }

// True if `step` has to wait for `before`: by the program's text (rule P2), or because `before` left the compute slot
// of the node in which `step` started.
bool WaitsFor(const TracedRun& run, TracedStep step, TracedStep before) {
  const EngineEvent& own = At(run, step);
  const EngineEvent& other = At(run, before);
  const ActionView& action = ActionOf(run, step);
  const ActionView& earlier = ActionOf(run, before);
  if (run.program.step_barrier() && action.list == ListKind::kBody && earlier.list == ListKind::kBody &&
      own.repetition == other.repetition + 1) {
    return true;
  }
  // True if the step waited for a compute slot of its node, which `before` left.
  if (Computes(run, step) && Computes(run, before) && own.ready < own.start && other.end == own.start &&
      step.rank / run.options.devices_per_node == before.rank / run.options.devices_per_node) {
    return true;
  }
  if (step.rank != before.rank) return false;
  const bool both_compute = Computes(run, step) && Computes(run, before);
  if ((own.stream == other.stream || both_compute) && before.event < step.event) return true;
  if (own.action == other.action && own.repetition == other.repetition) {
    const Segment& segment = run.program.segments(action.action->segment());
    const auto& deps = segment.steps(own.step).deps();
    return std::find(deps.begin(), deps.end(), other.step) != deps.end();
  }
  // A group waits for what any member waits for, and for the groups before it on any of its streams.
  const int group = action.action->transfer_group();
  for (const ActionView& member : TemplateOf(run, step.rank).actions) {
    const bool of_group = group > 0 && IsTransfer(action.action->kind()) && member.list == action.list &&
                          member.action->transfer_group() == group;
    if (member.action != action.action && !of_group) continue;
    for (const Dependency& dep : member.action->deps()) {
      if (dep.action() == earlier.action->id()) return true;
    }
  }
  const bool groups = group > 0 || earlier.action->transfer_group() > 0;
  return groups && IsTransfer(action.action->kind()) && IsTransfer(earlier.action->kind()) && before.event < step.event;
}

// True if the two steps must be ready to start together: sides of a transfer or of transfers in groups, or members of a
// collective.
bool MeetsWith(const TracedRun& run, TracedStep step, TracedStep other) {
  if (step == other) return true;
  const StreamKey& a = KeyOf(run, step);
  const StreamKey& b = KeyOf(run, other);
  if (a.kind == StreamClass::kCollective) return b.kind == a.kind && a.purpose == b.purpose;
  return IsTransfer(ActionOf(run, step).action->kind()) && IsTransfer(ActionOf(run, other).action->kind());
}

// Expects every hop to begin where the hop before it ends, and expects the hop's step to have waited for that earlier
// hop.
void ExpectRealPath(const TracedRun& run, const std::vector<CriticalHop>& path) {
  Time now = {};
  for (size_t i = 0; i < path.size(); ++i) {
    const CriticalHop& hop = path[i];
    const EngineEvent& event = At(run, hop.step);
    ASSERT_EQ(hop.from, now);
    ASSERT_EQ(hop.from, hop.latency ? event.end : event.start);
    now = hop.to;
    if (hop.latency) {
      ASSERT_GT(i, 0u);
      ASSERT_EQ(path[i - 1].step, hop.step);
      ASSERT_FALSE(path[i - 1].latency);
      ASSERT_GE(event.finish, event.end);
      continue;
    }
    ASSERT_EQ(hop.to, event.end);
    if (i == 0) continue;
    // The hop's step waited for the hop before it, either directly or through the partner or member that was ready
    // last. For a transfer, the path contains only the SEND.
    bool real = false;
    for (int32_t rank = 0; rank < static_cast<int32_t>(run.result.ranks.size()) && !real; ++rank) {
      const std::vector<EngineEvent>& events = run.result.ranks[rank].events;
      for (int32_t e = 0; e < static_cast<int32_t>(events.size()) && !real; ++e) {
        const TracedStep last = {rank, e};
        if (events[e].start < event.start || events[e].ready > event.start || !MeetsWith(run, hop.step, last)) continue;
        if (last != hop.step && events[e].ready != event.start) continue;
        if (WaitsFor(run, last, path[i - 1].step)) real = true;
        // The step may have waited for the RECV of that SEND.
        const Action& before = *ActionOf(run, path[i - 1].step).action;
        if (real || before.kind() != SEND) continue;
        const std::vector<EngineEvent>& received = run.result.ranks[rank].events;
        for (int32_t r = 0; r < static_cast<int32_t>(received.size()) && !real; ++r) {
          const bool recv = ActionOf(run, {rank, r}).action->kind() == RECV;
          real = recv && received[r].start == path[i - 1].from && received[r].end == path[i - 1].to &&
                 WaitsFor(run, last, {rank, r});
          if (!real && recv && path[i - 1].latency) {
            real = received[r].finish == path[i - 1].to && WaitsFor(run, last, {rank, r});
          }
        }
      }
    }
    EXPECT_TRUE(real) << "hop " << i << " at " << hop.from.ps << " ps: rank " << hop.step.rank << " '"
                      << ActionOf(run, hop.step).action->name() << "' step " << event.step << " after rank "
                      << path[i - 1].step.rank << " '" << ActionOf(run, path[i - 1].step).action->name() << "' step "
                      << At(run, path[i - 1].step).step;
  }
  EXPECT_EQ(now, run.result.makespan);
}

std::vector<CriticalHop> PathOf(const TracedRun& run) {
  const auto path = FindCriticalPath(run.view, run.result, run.options);
  EXPECT_TRUE(path.ok()) << path.status();
  return path.ok() ? *path : std::vector<CriticalHop>();
}

Durations RandomDurations(uint64_t seed) {
  return [seed](int segment, int step, ActionKind kind) { return Hash(seed, {5, segment, step, kind}, 6); };
}

TEST(CriticalPath, IsContiguousAndRealForRandomPrograms) {
  int dynamic = 0, slots = 0, barriers = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    TracedRun run;
    run.program = RandomEngineProgram(seed);
    run.program.set_step_barrier(seed % 4 == 0);
    dynamic += run.program.compute_order() != STATIC_ORDER;
    run.options.repetitions = 1 + static_cast<int32_t>(seed % 3);
    barriers += run.program.step_barrier() && run.options.repetitions > 1;
    if (seed % 5 == 1) {
      ++slots;
      run.options.devices_per_node = 6;
      run.options.compute_slots_per_node = 1 + static_cast<int64_t>(seed % 2);
      run.options.compute_turn = {static_cast<int64_t>(seed % 12)};
    }
    RunTraced(RandomDurations(seed), HashNetwork(seed), seed % 2 == 0 && seed % 5 != 1, run);
    ExpectRealPath(run, PathOf(run));
    if (HasFailure()) return;
  }
  EXPECT_GT(dynamic, 50);
  EXPECT_GT(slots, 50);
  EXPECT_GT(barriers, 20);
}

TEST(CriticalPath, IsContiguousAndRealForSchedules) {
  const RandomProgramOptions options = {.max_pipe = 4, .max_data = 2, .events = 20, .schedules = true};
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    TracedRun run;
    run.program = RandomProgram(seed, options);
    run.options.repetitions = 1 + static_cast<int32_t>(seed % 2);
    RunTraced(RandomDurations(seed), HashNetwork(seed), seed % 2 == 0, run);
    ExpectRealPath(run, PathOf(run));
    if (HasFailure()) return;
  }
}

// Length of the path if compute steps have `durations`; the network's times stay the same.
int64_t LengthWith(const TracedRun& run, const std::vector<CriticalHop>& path, const Durations& durations) {
  int64_t length = 0;
  for (const CriticalHop& hop : path) {
    const ActionView& action = ActionOf(run, hop.step);
    const StreamClass kind = KeyOf(run, hop.step).kind;
    const bool timed = kind == StreamClass::kCompute || kind == StreamClass::kD2h || kind == StreamClass::kH2d;
    length += timed ? durations(action.action->segment(), At(run, hop.step).step, action.action->kind())
                    : (hop.to - hop.from).ps;
  }
  return length;
}

// A chain of real waits remains a chain of real waits whatever its steps take, so with other times the run is never
// shorter than the chain. In particular, if a step takes no time, the run is shorter by at most the step's time on the
// path, and not longer.
TEST(CriticalPath, BoundsTheRunWithOtherTimes) {
  int checked = 0, shorter = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    TracedRun run;
    run.program = RandomEngineProgram(seed);
    // With other times, choices at run time may be different.
    if (run.program.compute_order() != STATIC_ORDER) continue;
    const Durations durations = RandomDurations(seed);
    const HashNetwork network(seed);
    RunTraced(durations, network, /*join=*/true, run);
    const std::vector<CriticalHop> path = PathOf(run);
    ASSERT_EQ(LengthWith(run, path, durations), run.result.makespan.ps);
    TracedRun other;
    other.program = run.program;
    RunTraced(RandomDurations(seed + 1000), network, /*join=*/true, other);
    EXPECT_GE(other.result.makespan.ps, LengthWith(run, path, RandomDurations(seed + 1000)));
    for (size_t i = 0; i < path.size(); i += 1 + path.size() / 4) {
      if (!Computes(run, path[i].step) || path[i].from == path[i].to) continue;
      const int segment = ActionOf(run, path[i].step).action->segment();
      const int step = At(run, path[i].step).step;
      const ActionKind kind = ActionOf(run, path[i].step).action->kind();
      const Durations without = [&](int s, int t, ActionKind k) {
        return s == segment && t == step && k == kind ? 0 : durations(s, t, k);
      };
      TracedRun faster;
      faster.program = run.program;
      RunTraced(without, network, /*join=*/true, faster);
      EXPECT_LE(faster.result.makespan, run.result.makespan);
      EXPECT_GE(faster.result.makespan.ps, LengthWith(run, path, without));
      shorter += faster.result.makespan < run.result.makespan;
      ++checked;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(checked, 200);
  EXPECT_GT(shorter, 100);
}

int64_t Picoseconds(double seconds) { return std::llround(seconds * 1e12); }

// GPipe on 2 ranks with 2 microbatches: a forward takes 3, a backward 5, a message 2 with a latency of 1. The path is
// F0 on rank 0, its message, F0 F1 B0 on rank 1, the gradient's message, B0 B1 on rank 0.
TEST(CriticalPath, MatchesAPipelineByHand) {
  class Fixed : public NetworkModel {
    absl::StatusOr<TransferTime> Transfer(int64_t, int64_t, int64_t) const override { return TransferTime{{2}, {1}}; }
    absl::StatusOr<TransferTime> Collective(const CollectiveCall&, const GroupForm&,
                                            absl::Span<const int64_t>) const override {
      return TransferTime{};
    }
  };
  TracedRun run;
  run.program = GPipeProgram(2, 2, 100);
  RunTraced([](int, int, ActionKind kind) { return kind == FORWARD ? 3 : 5; }, Fixed(), /*join=*/true, run);
  const std::vector<CriticalHop> path = PathOf(run);
  ExpectRealPath(run, path);
  SimulationReport report;
  ReportCriticalPath(run.view, run.result, path, &report);
  std::map<std::string, int64_t> kinds;
  int64_t sum = 0;
  for (const CriticalKind& row : report.critical_kinds()) sum += kinds[row.kind()] = Picoseconds(row.seconds());
  EXPECT_THAT(kinds, ElementsAre(Pair("BACKWARD", 15), Pair("FORWARD", 9), Pair("SEND", 4), Pair("latency", 2)));
  EXPECT_EQ(sum, run.result.makespan.ps);
  // The longest actions come first; ties go by start.
  ASSERT_EQ(report.critical_actions_size(), 8);
  EXPECT_EQ(report.critical_actions(0).rank(), 1);
  EXPECT_EQ(report.critical_actions(0).kind(), "BACKWARD");
  EXPECT_EQ(Picoseconds(report.critical_actions(0).start_seconds()), 12);
  EXPECT_EQ(report.critical_actions(2).rank(), 0);
  EXPECT_EQ(report.critical_actions(7).kind(), "SEND");
}

TEST(CriticalPath, ListsTwentyActions) {
  TracedRun run;
  run.program = GPipeProgram(4, 16, 100);
  RunTraced([](int, int, ActionKind kind) { return kind == FORWARD ? 3 : 5; }, HashNetwork(1), /*join=*/true, run);
  SimulationReport report;
  ReportCriticalPath(run.view, run.result, PathOf(run), &report);
  EXPECT_EQ(report.critical_actions_size(), 20);
}

TEST(CriticalPath, HasNoLengthIfNothingTakesTime) {
  TracedRun run;
  run.program = GPipeProgram(1, 1, 100);
  RunTraced([](int, int, ActionKind) { return 0; }, HashNetwork(1), /*join=*/true, run);
  for (const CriticalHop& hop : PathOf(run)) EXPECT_EQ(hop.to, Time{});
}

}  // namespace
}  // namespace weft::sim
