// Computation beside collectives (rule P3: load): closed forms, and random programs in which the end of every step is
// checked against the loads in the trace.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/engine/engine.h"
#include "simulator/engine/hash_below_testing.h"
#include "simulator/network/network_model.h"
#include "simulator/testing/test_programs.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

// A network whose times come from a hash, or are the same for every call.
class TestNetwork : public NetworkModel {
 public:
  explicit TestNetwork(uint64_t seed) : seed_(seed) {}
  explicit TestNetwork(TransferTime fixed) : fixed_(fixed) {}

  absl::StatusOr<TransferTime> Transfer(int64_t source, int64_t destination, int64_t bytes) const override {
    if (seed_ == 0) return fixed_;
    return TransferTime{{HashBelow(seed_, {source, destination, bytes}, 5)}, {HashBelow(seed_, {bytes}, 3)}};
  }
  absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm& form,
                                          absl::Span<const int64_t> members) const override {
    if (seed_ == 0) return fixed_;
    const int64_t group = members.front() + 100 * members.back();
    return TransferTime{{HashBelow(seed_, {group, call.parts[0].elements}, 30)}, {HashBelow(seed_, {group}, 3)}};
  }

 private:
  uint64_t seed_ = 0;
  TransferTime fixed_;
};

std::string Sum(const std::string& purpose, const std::string& rest) {
  return "stream: COLLECTIVE kernel: GROUP_ALL_REDUCE inputs: 0 outputs: 0 "
         "collective { group { axes { axis: 'x' } } purpose: " +
         purpose + " algorithm: 'ring' } " + rest;
}

EngineResult RunSteps(const Program& program, const LoadTimes& costs, TransferTime time, bool join_steps) {
  const auto view = BuildProgramView(program, [&](const StepUse&) -> absl::StatusOr<LoadTimes> { return costs; },
                                     {.join_steps = join_steps});
  EXPECT_TRUE(view.ok()) << view.status();
  auto result = RunEngine(*view, TestNetwork(time), {.trace = true});
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : EngineResult{};
}

// Start and end of each step on rank 0.
std::map<int, std::pair<int64_t, int64_t>> Times(const EngineResult& result) {
  std::map<int, std::pair<int64_t, int64_t>> times;
  for (const EngineEvent& event : result.ranks[0].events) times[event.step] = {event.start.ps, event.end.ps};
  return times;
}

using Interval = std::pair<int64_t, int64_t>;

TEST(EngineLoad, ConvertsRemainingTime) {
  const Program program = OneSegmentProgram({"", Sum("TENSOR", "deps: 0"), "", ""});
  for (const bool join_steps : {false, true}) {
    const EngineResult result = RunSteps(program, {Time{100}, Time{200}, Time{400}}, {{50}, {7}}, join_steps);
    auto times = Times(result);
    EXPECT_EQ(times[0], Interval(0, 100));
    EXPECT_EQ(times[1], Interval(100, 150));
    // Beside the collective the step costs 200 ps, of which 50 pass. The other 150 then become 75, because without load
    // the step costs 100. The latency of the collective is no load.
    EXPECT_EQ(times[2], Interval(100, 225));
    EXPECT_EQ(times[3], Interval(225, 325));
    EXPECT_EQ(result.makespan.ps, 325);
    EXPECT_EQ(result.ranks[0].busy.ps, 325);
    EXPECT_EQ(result.ranks[0].slowed.ps, 25);
  }
}

TEST(EngineLoad, LoadsBeginAndEndWithinOneRun) {
  // The collective outlasts two steps and a part of the third.
  const Program program = OneSegmentProgram({"", Sum("TENSOR", "deps: 0"), "", "", "", ""});
  for (const bool join_steps : {false, true}) {
    const EngineResult result = RunSteps(program, {Time{10}, Time{13}, Time{20}}, {{30}, {0}}, join_steps);
    auto times = Times(result);
    EXPECT_EQ(times[2], Interval(10, 23));
    EXPECT_EQ(times[3], Interval(23, 36));
    // 4 of 13 ps pass until the collective ends at 40. The other 9 become ceil(9 x 10 / 13) = 7.
    EXPECT_EQ(times[4], Interval(36, 47));
    EXPECT_EQ(times[5], Interval(47, 57));
    EXPECT_EQ(result.ranks[0].slowed.ps, 7);
  }
}

TEST(EngineLoad, TwoCollectivesAreTheMost) {
  // Collectives on three communicators run at once, from 10 on. The step costs as much as beside two.
  const Program program = OneSegmentProgram(
      {"", Sum("TENSOR", "deps: 0"), Sum("GATHER_WEIGHTS", "deps: 0"), Sum("SCATTER_GRADIENTS", "deps: 0"), ""});
  for (const bool join_steps : {false, true}) {
    const EngineResult result = RunSteps(program, {Time{10}, Time{20}, Time{40}}, {{1000}, {0}}, join_steps);
    EXPECT_EQ(Times(result)[4], Interval(10, 50));
  }
}

TEST(EngineLoad, AnEndAndAStartAtOneInstantAreNoChange) {
  // The second collective begins when the first ends; the step that waits for the first begins then too.
  const Program program =
      OneSegmentProgram({"", Sum("TENSOR", "deps: 0"), Sum("GATHER_WEIGHTS", "deps: 1"), "", "deps: 1"});
  for (const bool join_steps : {false, true}) {
    const EngineResult result = RunSteps(program, {Time{7}, Time{9}, Time{30}}, {{9}, {0}}, join_steps);
    auto times = Times(result);
    EXPECT_EQ(times[1], Interval(7, 16));
    EXPECT_EQ(times[2], Interval(16, 25));
    EXPECT_EQ(times[3], Interval(7, 16));
    EXPECT_EQ(times[4], Interval(16, 25));
  }
}

TEST(EngineLoad, CollectivesWithoutDurationAreNoLoad) {
  const Program program = OneSegmentProgram({"", Sum("TENSOR", "deps: 0"), ""});
  EXPECT_EQ(RunSteps(program, {Time{7}, Time{9}, Time{30}}, {{0}, {5}}, true).makespan.ps, 14);
}

TEST(EngineLoad, CostsThatFallAreRefused) {
  const Program program = OneSegmentProgram({"name: 'odd'"});
  for (const LoadTimes costs : {LoadTimes{Time{2}, Time{1}, Time{3}}, LoadTimes{Time{0}, Time{1}, Time{1}}}) {
    const auto view = BuildProgramView(program, [&](const StepUse&) -> absl::StatusOr<LoadTimes> { return costs; }, {});
    EXPECT_EQ(view.status().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(view.status().message()), HasSubstr("'odd'"));
  }
}

TEST(EngineLoad, TimeBeyondTheLimitIsRefused) {
  const Program program = OneSegmentProgram({"", Sum("TENSOR", "deps: 0"), "", ""});
  const auto view = BuildProgramView(program,
                                     [&](const StepUse&) -> absl::StatusOr<LoadTimes> {
                                       return LoadTimes{Time{1}, Time{int64_t{1} << 62}, Time{int64_t{1} << 62}};
                                     },
                                     {});
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(RunEngine(*view, TestNetwork(TransferTime{{50}, {0}}), {.trace = true}).status().code(),
            absl::StatusCode::kOutOfRange);
}

// ---- Random programs.

LoadTimes RandomCosts(uint64_t seed, const StepUse& use, bool copy) {
  const int64_t cost = HashBelow(seed, {use.segment, use.step, use.kind}, 12);
  if (cost == 0 || copy) return {Time{cost}, Time{cost}, Time{cost}};
  const int64_t one = cost + HashBelow(seed, {1, use.segment, use.step}, 6);
  return {Time{cost}, Time{one}, Time{one + HashBelow(seed, {2, use.segment, use.step}, 9)}};
}

class RandomRun {
 public:
  RandomRun(uint64_t seed, bool join_steps, int slots) : program_(RandomEngineProgram(seed)) {
    const auto costs = [&, seed](const StepUse& use) -> absl::StatusOr<LoadTimes> {
      return RandomCosts(seed, use, program_.segments(use.segment).steps(use.step).stream() != COMPUTE);
    };
    auto view = BuildProgramView(program_, costs, {.join_steps = join_steps});
    EXPECT_TRUE(view.ok()) << view.status();
    view_ = *std::move(view);
    auto result = RunEngine(view_, TestNetwork(seed + 1),
                            {.repetitions = 2, .devices_per_node = 3, .compute_slots_per_node = slots, .trace = true});
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) result_ = *std::move(result);
    seed_ = seed;
  }

  const EngineResult& result() const { return result_; }

  // (rank, action, step, repetition, stream) and the four times of every event.
  std::set<std::vector<int64_t>> Events() const {
    std::set<std::vector<int64_t>> events;
    for (size_t rank = 0; rank < result_.ranks.size(); ++rank) {
      for (const EngineEvent& e : result_.ranks[rank].events) {
        events.insert({static_cast<int64_t>(rank), e.action, e.step, e.repetition, e.stream, e.ready.ps, e.start.ps,
                       e.end.ps, e.finish.ps});
      }
    }
    return events;
  }

  // Expects each compute step to end at the time that follows from the loads of its rank in the trace. Returns how many
  // steps were slowed down.
  int CheckComputation() const {
    int slowed = 0;
    for (size_t rank = 0; rank < result_.ranks.size(); ++rank) {
      const TemplateView& t = view_.templates[view_.template_of_rank[rank]];
      const std::vector<EngineEvent>& events = result_.ranks[rank].events;
      const auto load_at = [&](int64_t time) {
        int load = 0;
        for (const EngineEvent& e : events) {
          load += t.streams[e.stream].key.kind == StreamClass::kCollective && e.start.ps <= time && time < e.end.ps;
        }
        return std::min(load, 2);
      };
      int64_t busy = 0, unloaded = 0;
      for (const EngineEvent& e : events) {
        if (t.streams[e.stream].key.kind != StreamClass::kCompute) continue;
        const Action& action = *t.actions[e.action].action;
        const LoadTimes costs =
            RandomCosts(seed_, {.segment = action.segment(), .step = e.step, .kind = action.kind()}, false);
        int64_t left = costs[0].ps, load = 0, now = e.start.ps;
        while (left > 0) {
          const int64_t next = load_at(now);
          left = (left * costs[next].ps + costs[load].ps - 1) / costs[load].ps;
          load = next;
          // Advance by one picosecond at a time while the load stays the same: fractions are rounded only at changes.
          while (left > 0 && load_at(now) == load) {
            --left;
            ++now;
          }
        }
        EXPECT_EQ(e.end.ps, now) << "rank " << rank << " action " << action.id() << " step " << e.step;
        slowed += e.end - e.start > costs[0];
        busy += e.end.ps - e.start.ps;
        unloaded += costs[0].ps;
      }
      EXPECT_EQ(result_.ranks[rank].busy.ps, busy);
      EXPECT_EQ(result_.ranks[rank].slowed.ps, busy - unloaded);
    }
    return slowed;
  }

 private:
  uint64_t seed_ = 0;
  Program program_;
  ProgramView view_;
  EngineResult result_;
};

TEST(EngineLoad, RandomProgramsStepByStep) {
  int slowed = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const RandomRun joined(seed, /*join_steps=*/true, /*slots=*/0);
    const RandomRun single(seed, /*join_steps=*/false, /*slots=*/0);
    slowed += single.CheckComputation();
    EXPECT_EQ(joined.Events(), single.Events());
    EXPECT_EQ(joined.result().makespan, single.result().makespan);
    EXPECT_EQ(joined.result().repetition_finish, single.result().repetition_finish);
    for (size_t rank = 0; rank < joined.result().ranks.size(); ++rank) {
      const RankResult& a = joined.result().ranks[rank];
      const RankResult& b = single.result().ranks[rank];
      EXPECT_EQ(a.busy, b.busy);
      EXPECT_EQ(a.slowed, b.slowed);
      EXPECT_EQ(a.exposed_communication, b.exposed_communication);
      EXPECT_EQ(a.idle, b.idle);
      EXPECT_EQ(a.live_peak, b.live_peak);
    }
    RandomRun(seed, /*join_steps=*/false, /*slots=*/1).CheckComputation();
    if (HasFailure()) return;
  }
  EXPECT_GT(slowed, 1000);
}

// A rank at another speed behaves like a rank with other costs.
TEST(EngineLoad, SpeedsScaleCosts) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Program program = RandomEngineProgram(seed);
    int64_t ranks = 1;
    for (const MeshAxis& axis : program.mesh().axes()) ranks *= axis.size();
    constexpr int64_t kSpeeds[] = {1'000'000, 700'000, 1'300'000};
    ProgramViewOptions devices, speeds = {.join_steps = seed % 2 == 0};
    for (int64_t rank = 0; rank < ranks; ++rank) {
      devices.device_of_rank.push_back(static_cast<int32_t>(HashBelow(seed, {rank}, 3)));
      speeds.speed_of_rank.push_back(kSpeeds[devices.device_of_rank.back()]);
    }
    const auto costs = [&](const StepUse& use) -> absl::StatusOr<LoadTimes> {
      const bool copy = program.segments(use.segment).steps(use.step).stream() != COMPUTE;
      LoadTimes times = RandomCosts(seed, use, copy);
      for (Time& time : times) time.ps *= 1000;
      for (Time& time : times) {
        if (!copy) time.ps = (time.ps * 1'000'000 + kSpeeds[use.device] - 1) / kSpeeds[use.device];
      }
      return times;
    };
    const auto one = BuildProgramView(program, costs, devices);
    const auto other = BuildProgramView(program, costs, speeds);
    ASSERT_TRUE(one.ok() && other.ok());
    const auto a = RunEngine(*one, TestNetwork(seed + 1), {.repetitions = 2});
    const auto b = RunEngine(*other, TestNetwork(seed + 1), {.repetitions = 2});
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(a->makespan, b->makespan);
    EXPECT_EQ(a->repetition_finish, b->repetition_finish);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(a->ranks[rank].busy, b->ranks[rank].busy);
      EXPECT_EQ(a->ranks[rank].slowed, b->ranks[rank].slowed);
      EXPECT_EQ(a->ranks[rank].idle, b->ranks[rank].idle);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace weft::sim
