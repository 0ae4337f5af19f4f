#include "simulator/engine/engine.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "simulator/naive/naive_simulator.h"
#include "simulator/testing/engine_oracle.h"
#include "simulator/testing/test_programs.h"
#include "tests/random_program.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// True if an action runs a segment with a collective over several ranks.
bool UsesStepCollectives(const Program& program) {
  for (const Template& t : program.templates()) {
    for (const Action& action : t.body()) {
      if (action.operands_size() == 0) continue;
      for (const Step& step : program.segments(action.segment()).steps()) {
        if (step.stream() == COLLECTIVE && GroupSize(program.mesh(), step.collective().group()) > 1) return true;
      }
    }
  }
  return false;
}

bool WaitsForDetachedSteps(const Program& program) {
  for (const Template& t : program.templates()) {
    for (const Action& action : t.body()) {
      for (const Dependency& dep : action.deps()) {
        if (dep.detached()) return true;
      }
    }
  }
  return false;
}

// Compares engine and oracle without compute slots, with one or two slots for four devices, and with turns on one slot.
void ExpectAgreementWithSlots(const Program& program, const NaiveDurations& durations, uint64_t seed) {
  const int repetitions = 1 + static_cast<int>(seed % 3);
  ExpectAgreement(program, durations, {.repetitions = repetitions});
  ExpectAgreement(program, durations,
                  {.repetitions = repetitions,
                   .devices_per_node = 4,
                   .slots = 1 + static_cast<int>(seed % 2),
                   .join_steps = false});
  ExpectAgreement(program, durations,
                  {.repetitions = repetitions,
                   .devices_per_node = 4,
                   .slots = 1,
                   .turn = 1 + static_cast<int64_t>(seed % 20),
                   .join_steps = false});
}

// Whatever order is chosen, live buffers fit in the arena.
void ExpectPlaceForAll(const Program& program, const NaiveDurations& durations) {
  const auto engine = Simulate(program, durations, {.repetitions = 3}, /*join_steps=*/true);
  ASSERT_TRUE(engine.ok()) << engine.status();
  for (size_t rank = 0; rank < engine->ranks.size(); ++rank) {
    const int t = TemplateOfRank(program, static_cast<int64_t>(rank));
    EXPECT_LE(engine->ranks[rank].live_peak, program.templates(t).device_arena_bytes());
  }
}

TEST(EngineAgainstOracle, RandomEnginePrograms) {
  int dynamic = 0, grouped = 0, collectives = 0, detached = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Program program = RandomEngineProgram(seed);
    dynamic += program.compute_order() != STATIC_ORDER;
    grouped += program.DebugString().find("transfer_group") != std::string::npos;
    collectives += UsesStepCollectives(program);
    detached += WaitsForDetachedSteps(program);
    const NaiveDurations durations = RandomDurations(seed);
    const int repetitions = 1 + static_cast<int>(seed % 3);
    ExpectAgreement(program, durations, {.repetitions = repetitions});
    ExpectAgreement(program, durations, {.repetitions = repetitions, .join_steps = false});
    ExpectAgreement(program, durations,
                    {.repetitions = repetitions,
                     .devices_per_node = 6,
                     .slots = 1 + static_cast<int>(seed % 2),
                     .join_steps = false});
    ExpectAgreement(program, durations,
                    {.repetitions = repetitions, .devices_per_node = 3, .slots = 1, .join_steps = false});
    const int64_t turn = 1 + static_cast<int64_t>(seed % 12);
    ExpectAgreement(program, durations,
                    {.repetitions = repetitions,
                     .devices_per_node = 6,
                     .slots = 1 + static_cast<int>(seed % 2),
                     .turn = turn,
                     .join_steps = false});
    ExpectAgreement(program, durations,
                    {.repetitions = repetitions, .devices_per_node = 3, .slots = 1, .turn = turn, .join_steps = false});
    ExpectAgreement(
        program, durations,
        {.repetitions = repetitions, .devices_per_node = 6, .slots = 2, .turn = int64_t{1} << 40, .join_steps = false});
    if (HasFailure()) {
      ADD_FAILURE() << program.DebugString();
      return;
    }
  }
  EXPECT_GT(dynamic, 100);
  EXPECT_GT(grouped, 100);
  EXPECT_GT(collectives, 100);
  EXPECT_GT(detached, 100);
}

// Programs that the verifier accepts.
TEST(EngineAgainstOracle, VerifiablePrograms) {
  const RandomProgramOptions options = {.max_pipe = 3, .max_data = 2, .events = 16};
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Program program = RandomProgram(seed, options);
    const NaiveDurations durations = RandomDurations(seed);
    ExpectAgreementWithSlots(program, durations, seed);
    if (HasFailure()) return;
  }
}

// Programs with everything that pipeline schedules bring. Each feature must be in enough of them to be tested.
TEST(EngineAgainstOracle, VerifiableProgramsOfSchedules) {
  const RandomProgramOptions options = {.max_pipe = 4, .max_data = 2, .events = 20, .schedules = true};
  std::map<std::string, int> seen;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Program program = RandomProgram(seed, options);
    ++seen[ComputeOrder_Name(program.compute_order())];
    ++seen[TransferStreams_Name(program.transfer_streams())];
    bool grouped = false, skips = false, wide = false, fetches = false, offloads = false;
    for (const Template& t : program.templates()) {
      for (int i = 0; i < t.body_size(); ++i) {
        const Action& action = t.body(i);
        grouped |= i > 0 && action.transfer_group() > 0 && action.transfer_group() == t.body(i - 1).transfer_group();
        skips |= action.skip() > 0;
        wide |= action.width() > 1;
        fetches |= action.kind() == FETCH;
        offloads |= action.kind() == OFFLOAD;
      }
    }
    seen["grouped"] += grouped;
    seen["skips"] += skips;
    seen["wide"] += wide;
    seen["fetches"] += fetches;
    seen["offloads"] += offloads;
    const NaiveDurations durations = RandomDurations(seed);
    ExpectAgreementWithSlots(program, durations, seed);
    ExpectPlaceForAll(program, durations);
    if (HasFailure()) return;
  }
  EXPECT_EQ(seen.size(), 11u);
  for (const auto& [feature, count] : seen) EXPECT_GT(count, 20) << feature;
}

// Programs with collectives in segments, on all axes.
TEST(EngineAgainstOracle, VerifiableProgramsWithCollectives) {
  RandomProgramOptions options = {.max_pipe = 2, .max_data = 2, .events = 12, .collectives = true, .max_ranks = 8};
  int steps = 0, detached = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    options.schedules = seed % 2 == 0;
    const Program program = RandomProgram(seed, options);
    steps += UsesStepCollectives(program);
    detached += WaitsForDetachedSteps(program);
    const NaiveDurations durations = RandomDurations(seed);
    const int repetitions = 1 + static_cast<int>(seed % 2);
    ExpectAgreement(program, durations, {.repetitions = repetitions});
    ExpectAgreement(program, durations,
                    {.repetitions = repetitions,
                     .devices_per_node = 4,
                     .slots = 1 + static_cast<int>(seed % 2),
                     .join_steps = false});
    ExpectPlaceForAll(program, durations);
    if (HasFailure()) return;
  }
  EXPECT_GT(steps, 60);
  EXPECT_GT(detached, 20);
}

// Calculates exposed communication from its definition: the instants at which a transfer or collective is in flight and
// nothing is computed.
TEST(EngineAgainstOracle, ExposedCommunicationAndBusy) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Program program = RandomEngineProgram(seed);
    const NaiveDurations durations = RandomDurations(seed);
    const auto engine = Simulate(program, durations, {.repetitions = 2, .trace = true}, /*join_steps=*/true);
    ASSERT_TRUE(engine.ok()) << engine.status();
    const auto view =
        BuildProgramView(program, [](int, int, ActionKind) -> absl::StatusOr<Time> { return Time{}; }, {});
    ASSERT_TRUE(view.ok());
    for (size_t rank = 0; rank < engine->ranks.size(); ++rank) {
      const TemplateView& t = view->templates[view->template_of_rank[rank]];
      int64_t exposed = 0;
      int64_t busy = 0;
      for (int64_t now = 0; now < engine->makespan.ps; ++now) {
        bool computes = false;
        bool communicates = false;
        for (const EngineEvent& event : engine->ranks[rank].events) {
          const StreamClass kind = t.streams[event.stream].key.kind;
          if (kind == StreamClass::kCompute) computes |= event.start.ps <= now && now < event.end.ps;
          if (kind >= StreamClass::kSend) communicates |= event.start.ps <= now && now < event.finish.ps;
        }
        busy += computes;
        exposed += communicates && !computes;
      }
      EXPECT_EQ(engine->ranks[rank].busy.ps, busy);
      EXPECT_EQ(engine->ranks[rank].exposed_communication.ps, exposed);
    }
  }
}

NaiveDurations FixedDurations(int64_t forward, int64_t backward, int64_t occupancy, int64_t latency) {
  NaiveDurations durations;
  durations.step = [=](const NaiveStepCall& call) { return call.kind == FORWARD ? forward : backward; };
  durations.transfer = [=](int64_t, int64_t, int64_t) { return NaiveTime{occupancy, latency}; };
  return durations;
}

TEST(Engine, GPipeClosedForm) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (int microbatches = 1; microbatches <= 6; ++microbatches) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << microbatches << " microbatches");
      const Program program = GPipeProgram(ranks, microbatches, /*bytes=*/100);
      for (const auto& [f, b] : {std::pair<int64_t, int64_t>{1, 2}, {3, 3}, {5, 1}}) {
        const auto free = Simulate(program, FixedDurations(f, b, 0, 0), {}, /*join_steps=*/true);
        ASSERT_TRUE(free.ok()) << free.status();
        EXPECT_EQ(free->makespan.ps, (microbatches + ranks - 1) * (f + b));
        // A transfer of cost c <= f, b adds its c and its latency to every hop of the first and of the last microbatch.
        const auto costly = Simulate(program, FixedDurations(f, b, 1, 2), {}, /*join_steps=*/true);
        ASSERT_TRUE(costly.ok()) << costly.status();
        EXPECT_EQ(costly->makespan.ps, (microbatches + ranks - 1) * (f + b) + 2 * (ranks - 1) * 3);
      }
      const auto result = Simulate(program, FixedDurations(1, 2, 0, 0), {}, /*join_steps=*/true);
      for (const RankResult& rank : result->ranks) {
        EXPECT_EQ(rank.busy.ps, microbatches * 3);
        // All microbatches are kept; parameters are 1000 bytes.
        EXPECT_EQ(rank.live_at_peak[SAVED_ACTIVATION], microbatches * 100);
        EXPECT_EQ(rank.live_at_peak[PARAMETER], 1000);
      }
    }
  }
}

TEST(Engine, IdleReasonsOfGPipe) {
  // 2 ranks, 2 microbatches, f = 1, b = 2. Rank 1 waits 1 for its first input and 2 at the end. Rank 0 waits for the
  // first gradient from 2 to 1 + 1 + 1 + 2 = 5.
  const auto result = Simulate(GPipeProgram(2, 2, 100), FixedDurations(1, 2, 0, 0), {}, /*join_steps=*/true);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->makespan.ps, 9);
  const auto idle = [&](int rank, IdleReason reason) { return result->ranks[rank].idle[static_cast<int>(reason)].ps; };
  EXPECT_EQ(idle(0, IdleReason::kGradientInput), 3);
  EXPECT_EQ(idle(0, IdleReason::kEndOfRun), 0);
  EXPECT_EQ(idle(1, IdleReason::kForwardInput), 1);
  EXPECT_EQ(idle(1, IdleReason::kEndOfRun), 2);
}

TEST(Engine, SteadyPeriodIsOneRankWork) {
  // If transfers cost nothing, GPipe's repetitions overlap: rank 0 starts the next forward after its own last backward.
  // The period is still the makespan, because rank 0 is both the first and the last to work.
  const Program program = GPipeProgram(3, 4, 100);
  const auto result = Simulate(program, FixedDurations(1, 2, 0, 0), {.repetitions = 16, .stop_when_steady = true},
                               /*join_steps=*/true);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->repetition_finish.size(), 3);
  EXPECT_EQ(result->repetition_finish[0].ps, 18);
  EXPECT_EQ(result->repetition_finish[2].ps, 54);
}

TEST(Engine, SlotsSerializeTheDevicesOfANode) {
  const Program program = GPipeProgram(4, 3, 100);
  const auto one =
      Simulate(program, FixedDurations(1, 2, 0, 0),
               {.repetitions = 1, .devices_per_node = 4, .compute_slots_per_node = 1}, /*join_steps=*/false);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->makespan.ps, 4 * 3 * 3);
  int64_t waited = 0;
  for (const RankResult& rank : one->ranks) waited += rank.idle[static_cast<int>(IdleReason::kComputeSlot)].ps;
  EXPECT_GT(waited, 0);
}

TEST(Engine, ARankKeepsItsSlotForATurn) {
  // Two independent ranks share one slot; each has six steps of 10.
  Program program = GPipeProgram(1, 3, 100);
  program.mutable_mesh()->mutable_axes(0)->set_size(2);
  *program.add_templates() = program.templates(0);
  program.mutable_templates(1)->mutable_pins(0)->set_index(1);
  const auto starts = [&](int64_t turn) {
    const auto result =
        Simulate(program, FixedDurations(10, 10, 0, 0),
                 {.devices_per_node = 2, .compute_slots_per_node = 1, .compute_turn = {turn}, .trace = true},
                 /*join_steps=*/false);
    EXPECT_TRUE(result.ok()) << result.status();
    std::vector<int64_t> starts;
    for (const EngineEvent& event : result->ranks[0].events) starts.push_back(event.start.ps);
    return starts;
  };
  EXPECT_THAT(starts(0), ElementsAre(0, 20, 40, 60, 80, 100));
  // At the end of the first step the turn has lasted 10, so it is over.
  EXPECT_THAT(starts(10), ElementsAre(0, 20, 40, 60, 80, 100));
  EXPECT_THAT(starts(11), ElementsAre(0, 10, 40, 50, 80, 90));
  EXPECT_THAT(starts(25), ElementsAre(0, 10, 20, 60, 70, 80));
  EXPECT_THAT(starts(1000), ElementsAre(0, 10, 20, 30, 40, 50));
}

TEST(Engine, SlotsGoByThePlacesOfRanks) {
  // Four independent ranks run on two nodes with one slot each: ranks 0 and 2 share one node, ranks 1 and 3 the other.
  Program program = GPipeProgram(1, 1, 100);
  program.mutable_mesh()->mutable_axes(0)->set_size(4);
  for (int rank = 1; rank < 4; ++rank) {
    *program.add_templates() = program.templates(0);
    program.mutable_templates(rank)->mutable_pins(0)->set_index(rank);
  }
  const auto result = Simulate(program, FixedDurations(10, 10, 0, 0),
                               {.devices_per_node = 2,
                                .compute_slots_per_node = 1,
                                .node_of_rank = {7, 3, 7, 3},
                                .compute_turn = {1000},
                                .trace = true},
                               /*join_steps=*/false);
  ASSERT_TRUE(result.ok()) << result.status();
  std::vector<int64_t> starts;
  for (const RankResult& rank : result->ranks) starts.push_back(rank.events[0].start.ps);
  EXPECT_THAT(starts, ElementsAre(0, 0, 20, 20));
}

TEST(Engine, StepsWithoutDurationEndBeforeTheNextSlotIsGranted) {
  // Four ranks have two slots. At time 0, rank 2 (whose step takes no time) and rank 3 are ready. The step of rank 2
  // ends at once, which makes ranks 0 and 1 ready at time 0 too, and these come before rank 3.
  Program program = GPipeProgram(4, 1, 100);
  for (int rank = 0; rank < 4; ++rank) {
    Template& t = *program.mutable_templates(rank);
    Action compute = t.body(rank == 0 ? 0 : 1);
    ASSERT_EQ(compute.kind(), FORWARD);
    const int received = t.buffers_size();
    Buffer* buffer = t.add_buffers();
    buffer->set_class_(IN_FLIGHT_ACTIVATION);
    buffer->set_bytes(100);
    compute.clear_deps();
    compute.clear_releases();
    compute.add_releases(compute.operands(0));
    compute.set_segment(rank == 2 ? 0 : 1);
    compute.set_id(1);
    t.clear_body();
    Action transfer;
    transfer.set_direction(FROM_LOSS);
    transfer.mutable_peer()->add_at()->set_axis("pipe");
    if (rank < 2) {
      transfer.set_kind(RECV);
      transfer.add_destinations(received);
      transfer.add_releases(received);
      transfer.mutable_peer()->mutable_at(0)->set_index(2);
      compute.add_deps()->set_action(0);
      *t.add_body() = transfer;
    }
    *t.add_body() = compute;
    for (int peer = 0; rank == 2 && peer < 2; ++peer) {
      transfer.set_kind(SEND);
      if (peer == 0) transfer.add_sources(0);
      transfer.set_id(2 + peer);
      transfer.mutable_peer()->mutable_at(0)->set_index(peer);
      if (peer == 0) transfer.add_deps()->set_action(1);
      *t.add_body() = transfer;
    }
  }
  NaiveDurations durations = FixedDurations(0, 0, 0, 0);
  durations.step = [](const NaiveStepCall& call) { return call.segment == 0 ? 0 : 10; };
  ExpectAgreement(program, durations, {.repetitions = 1, .devices_per_node = 4, .slots = 2, .join_steps = false});
  const auto result = Simulate(program, durations,
                               {.repetitions = 1, .devices_per_node = 4, .compute_slots_per_node = 2, .trace = true},
                               /*join_steps=*/false);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->ranks[3].events[0].start.ps, 10);
}

TEST(Engine, StepBarrierSeparatesRepetitions) {
  Program program = GPipeProgram(1, 1, 100);
  // The second rank runs only the forward.
  program.mutable_mesh()->mutable_axes(0)->set_size(2);
  *program.add_templates() = program.templates(0);
  program.mutable_templates(1)->mutable_pins(0)->set_index(1);
  program.mutable_templates(1)->mutable_body()->RemoveLast();
  program.mutable_templates(1)->mutable_body(0)->add_releases(1);
  program.set_step_barrier(true);
  const auto result = Simulate(program, FixedDurations(3, 4, 0, 0), {.repetitions = 2, .trace = true}, true);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->makespan.ps, 14);
  ASSERT_EQ(result->ranks[1].events.size(), 2);
  EXPECT_EQ(result->ranks[1].events[1].start.ps, 7);
  EXPECT_EQ(result->ranks[1].idle[static_cast<int>(IdleReason::kStepBarrier)].ps, 4);
}

TEST(Engine, StandstillNamesTheActions) {
  Program program = GPipeProgram(2, 2, 100);
  // Rank 0 does not send its second activation.
  google::protobuf::RepeatedPtrField<Action>& body = *program.mutable_templates(0)->mutable_body();
  for (int i = body.size() - 1; i >= 0; --i) {
    if (body[i].kind() == SEND && body[i].microbatch() == 1) body.DeleteSubrange(i, 1);
  }
  const auto result = Simulate(program, FixedDurations(1, 2, 0, 0), {}, /*join_steps=*/true);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("'recv s1 m1'"));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("rank 1 stream 'recv pipe=0 towards_loss lane 0'"));
}

TEST(Engine, TimeBeyondTheLimitIsRefused) {
  const auto result =
      Simulate(GPipeProgram(1, 4, 100), FixedDurations(int64_t{1} << 61, 1, 0, 0), {}, /*join_steps=*/true);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kOutOfRange);
  const int64_t longest = int64_t{1} << 62;
  for (const int64_t occupancy : {int64_t{1}, longest}) {
    const auto transfer =
        Simulate(GPipeProgram(2, 1, 100), FixedDurations(1, 1, occupancy, longest), {.trace = true}, true);
    EXPECT_EQ(transfer.status().code(), absl::StatusCode::kOutOfRange);
  }
}

TEST(Engine, RefusesNoRepetitions) {
  const auto result = Simulate(GPipeProgram(1, 1, 1), FixedDurations(1, 1, 0, 0), {.repetitions = 0}, true);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Engine, UnknownCollectiveIsRefused) {
  Program program = GPipeProgram(2, 1, 100);
  Step* step = program.mutable_segments(0)->add_steps();
  step->set_stream(COLLECTIVE);
  step->set_kernel(GROUP_ALL_REDUCE);
  step->mutable_collective()->set_algorithm("rink");
  const auto of_step = Simulate(program, RandomDurations(3), {}, true);
  EXPECT_EQ(of_step.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(of_step.status().message()), HasSubstr("ring"));
  program = GPipeProgram(2, 1, 100);
  Action* action = program.mutable_templates(0)->add_body();
  action->set_id(100);
  action->set_kind(REDUCE_SCATTER);
  action->set_algorithm("rink");
  const auto of_action = Simulate(program, RandomDurations(3), {}, true);
  EXPECT_EQ(of_action.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(of_action.status().message()), HasSubstr("ring"));
}

TEST(ProgramView, NamesStreams) {
  const Program program = GPipeProgram(3, 1, 100);
  const auto view = BuildProgramView(program, [](int, int, ActionKind) -> absl::StatusOr<Time> { return Time{}; }, {});
  ASSERT_TRUE(view.ok()) << view.status();
  std::vector<std::string> names;
  for (const StreamView& stream : view->templates[1].streams) names.push_back(stream.name);
  EXPECT_THAT(names, ElementsAre("compute", "send pipe=0 from_loss lane 0", "send pipe=2 towards_loss lane 0",
                                 "recv pipe=0 towards_loss lane 0", "recv pipe=2 from_loss lane 0"));
}

TEST(ProgramView, RefusesWhatNoVerifiedProgramHolds) {
  const StepDurationFn zero = [](int, int, ActionKind) -> absl::StatusOr<Time> { return Time{}; };
  Program program = GPipeProgram(1, 1, 1);
  program.mutable_templates(0)->mutable_body(0)->set_segment(7);
  EXPECT_THAT(std::string(BuildProgramView(program, zero, {}).status().message()), HasSubstr("segment 7"));
  program = GPipeProgram(1, 1, 1);
  program.mutable_segments(0)->clear_steps();
  EXPECT_THAT(std::string(BuildProgramView(program, zero, {}).status().message()), HasSubstr("never finishes"));
  program = GPipeProgram(1, 1, 1);
  program.mutable_templates(0)->mutable_body(1)->add_releases(99);
  EXPECT_THAT(std::string(BuildProgramView(program, zero, {}).status().message()), HasSubstr("buffer 99"));
  program = GPipeProgram(1, 1, 1);
  program.mutable_templates(0)->mutable_body(1)->add_deps()->set_action(50);
  EXPECT_THAT(std::string(BuildProgramView(program, zero, {}).status().message()), HasSubstr("unknown action 50"));
  program = GPipeProgram(2, 1, 1);
  program.mutable_templates()->RemoveLast();
  EXPECT_THAT(std::string(BuildProgramView(program, zero, {}).status().message()), HasSubstr("rank 1"));
}

}  // namespace
}  // namespace weft::sim
