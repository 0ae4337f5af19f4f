// Tests programs that can take optimizer steps back (rule P15): the norm is no barrier, the right actions are guessed,
// and the planner's choices take the rewritten program into account.
#include "compiler/rewrite/post_validation.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/rewrite/post_validation_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/naive/naive_simulator.h"
#include "simulator/simulate.h"
#include "verifier/verify.h"

namespace weft {
namespace {

using post_validation::Case;
using post_validation::CompileCase;
using post_validation::CompileOrDie;
using post_validation::MoveUp;
using post_validation::TestCluster;
using testing::HasSubstr;

SimulationReport UnitReport(const Program& program, bool exceeded) {
  sim::SimulateOptions options;
  options.cost = "unit";
  options.network = "none";
  options.cost_options.unit_forward = {1000};
  options.cost_options.unit_backward = {2000};
  options.cost_options.unit_weight = {1000};
  options.exceeded = exceeded;
  const absl::StatusOr<sim::Simulation> simulation = sim::Simulate(program, TestCluster(), options);
  EXPECT_TRUE(simulation.ok()) << simulation.status();
  return simulation->report;
}

int64_t Period(const Program& program, bool exceeded = false) {
  return std::llround(UnitReport(program, exceeded).iteration_seconds() * 1e12);
}

// Equal stages, free transfers, F = I = W = 1 and 16 microbatches. A step takes 48, the work of one rank, if ranks may
// begin the next step at different times. Waiting for the norm adds the part of the makespan beyond 48.
TEST(PostValidation, NormIsNoBarrier) {
  for (const auto& [schedule, waits] : {std::pair("zb-h2", 51000), {"zb-v", 49500}}) {
    EXPECT_EQ(Period(CompileOrDie({.schedule = schedule, .post_validation = false})), waits) << schedule;
    EXPECT_EQ(Period(CompileOrDie({.schedule = schedule})), 48000) << schedule;
    EXPECT_EQ(Period(CompileOrDie({.schedule = schedule, .clip = 0})), 48000) << schedule;
  }
  // If all ranks end at the same time, post-validation gains and loses nothing.
  EXPECT_EQ(Period(CompileOrDie({.schedule = "1f1b"})),
            Period(CompileOrDie({.schedule = "1f1b", .post_validation = false})));
}

// If every step is taken back, each rank runs the guess a second time and waits for the norm.
TEST(PostValidation, ExceededNormsCost) {
  const Program program = CompileOrDie({});
  const int64_t wrong = Period(program, true);
  EXPECT_GT(wrong, Period(program));
  EXPECT_LE(wrong, 51000 + 4000);
}

TEST(PostValidation, EachRankGuessesOneForwardLessThanTheRankBefore) {
  const Program program = CompileOrDie({});
  ASSERT_EQ(program.templates_size(), 4);
  for (const Template& t : program.templates()) {
    int guessed = 0;
    for (const Action& action : t.body()) guessed += action.kind() == FORWARD && action.if_exceeded();
    EXPECT_EQ(guessed, 4 - t.pins(0).index()) << t.name();
  }
}

TEST(PostValidation, MemoryGrowsByWhatIsKept) {
  const Program plain = CompileOrDie({.post_validation = false, .evaluation = true}),
                program = CompileOrDie({.evaluation = true});
  for (int i = 0; i < program.templates_size(); ++i) {
    int64_t kept = 0, optimizer = 0;
    for (const Buffer& buffer : program.templates(i).buffers()) {
      const bool copy = buffer.role() == KEPT_WEIGHT || buffer.role() == KEPT_MOMENT1 || buffer.role() == KEPT_MOMENT2;
      const bool state = buffer.role() == PARAM || buffer.role() == MOMENT1 || buffer.role() == MOMENT2;
      if (copy) kept += buffer.bytes();
      if (state) optimizer += buffer.bytes();
    }
    EXPECT_EQ(kept, optimizer);
    EXPECT_GE(program.templates(i).device_arena_bytes(), plain.templates(i).device_arena_bytes() + kept);
  }
}

// Under ZeRO, KEEP_STATE copies only the rank's parts. The optimizer's inputs (the rank's parts of gradients and of
// half-precision weights) get persistent buffers. Whole weights are not copied.
TEST(PostValidation, KeepsPartsOfWhatReplicasShare) {
  for (const char* zero : {"zero { stage: 1 }", "zero { stage: 2 }"}) {
    for (const bool half : {false, true}) {
      const std::string fields = absl::StrCat(zero, half ? " precision { compute: BF16 }" : "");
      const Case c{.schedule = "1f1b", .pipe = 2, .microbatches = 8, .data = 2, .plan_fields = fields};
      const Program program = CompileOrDie(c);
      for (const Template& t : program.templates()) {
        int64_t kept = 0, states = 0, lasting = 0;
        for (const Buffer& buffer : t.buffers()) {
          const BufferRole role = buffer.role();
          if (role == KEPT_WEIGHT || role == KEPT_MOMENT1 || role == KEPT_MOMENT2) kept += buffer.bytes();
          if (role == MASTER || role == MOMENT1 || role == MOMENT2) states += buffer.bytes();
        }
        EXPECT_EQ(kept, states) << fields;
        int gathers = 0, gathered_again = 0;
        for (const Action& action : t.body()) {
          for (int b : action.operands()) {
            const bool update = action.kind() == OPTIMIZER_STEP && !action.if_exceeded();
            if (!update || t.buffers(b).role() != NO_ROLE) continue;
            EXPECT_TRUE(t.buffers(b).persistent());
            lasting += t.buffers(b).bytes();
          }
          if (action.kind() != ALL_GATHER) continue;
          ++(action.if_exceeded() ? gathered_again : gathers);
        }
        // Master and moments take 12 bytes per element, parts of gradients (stage 1) four, and weights in half
        // precision two.
        const int64_t elements = states / 12;
        EXPECT_EQ(lasting, (zero[14] == '1' ? 4 * elements : 0) + (half ? 2 * elements : 0)) << fields;
        EXPECT_GT(gathers, 0);
        EXPECT_EQ(gathered_again, gathers);
      }
    }
  }
}

// Compares the engine with the naive simulator for various costs, once with all verdicts right and once with all wrong.
TEST(PostValidation, EngineIsTheNaiveSimulator) {
  for (const auto& [schedule, zero] : {std::pair("zb-h2", ""), {"zb-v", ""}, {"zb-h2", "zero { stage: 1 }"}}) {
    for (int seed = 1; seed <= 2; ++seed) {
      const int data = zero[0] == 0 ? 1 : 2;
      const Program program = CompileOrDie(
          {.schedule = schedule, .pipe = 2, .microbatches = 3 * data, .layers = 4, .data = data, .plan_fields = zero});
      for (const bool exceeded : {false, true}) {
        sim::SimulateOptions options;
        options.cost = "unit";
        options.network = "none";
        options.exceeded = exceeded;
        options.cost_options.unit_forward = {1000 + 137 * seed};
        options.cost_options.unit_backward = {2000 + 311 * seed % 700};
        options.cost_options.unit_weight = {700 + 50 * seed};
        const absl::StatusOr<sim::Simulation> simulation = sim::Simulate(program, TestCluster(), options);
        ASSERT_TRUE(simulation.ok()) << simulation.status();
        // A unit cost is the cost of all stages of a rank, so one stage costs its share.
        const int64_t stages = program.stages(), ranks = 2;
        const auto of_stage = [&](int64_t cost) { return (cost * ranks + stages - 1) / stages; };
        sim::NaiveDurations durations;
        durations.step = [&](const sim::NaiveStepCall& call) -> int64_t {
          const int64_t f = of_stage(options.cost_options.unit_forward.ps);
          const int64_t b = of_stage(options.cost_options.unit_backward.ps);
          const int64_t w = of_stage(options.cost_options.unit_weight.ps);
          if (call.step > 0) return 0;
          return call.kind == FORWARD           ? f
                 : call.kind == BACKWARD        ? b
                 : call.kind == BACKWARD_INPUT  ? b - w
                 : call.kind == BACKWARD_WEIGHT ? w
                                                : 0;
        };
        durations.transfer = [](int64_t, int64_t, int64_t) { return sim::NaiveTime{}; };
        durations.collective = [](const sim::NaiveCollective&) { return sim::NaiveTime{}; };
        const sim::NaiveResult one = sim::SimulateNaively(program, durations, {.exceeded = exceeded});
        ASSERT_TRUE(one.complete);
        EXPECT_EQ(one.makespan, std::llround(simulation->report.makespan_seconds() * 1e12))
            << schedule << " seed " << seed << " exceeded " << exceeded;
        const int64_t live = *std::max_element(one.live_peak.begin(), one.live_peak.end());
        EXPECT_EQ(live, simulation->report.live_peak_bytes()) << schedule << " exceeded " << exceeded;
      }
    }
  }
}

TEST(PostValidation, Refusals) {
  const auto error = [](const Case& c) { return std::string(CompileCase(c).status().message()); };
  EXPECT_THAT(error({.schedule = "axonn"}),
              HasSubstr("plan.post_validation = true: schedule 'axonn' is message-driven"));
  EXPECT_THAT(error({.schedule = "pipedream-2bw", .clip = 0}), HasSubstr("plan.post_validation = true: schedule"));
  EXPECT_EQ(error({.schedule = "axonn", .schedule_fields = "freeze: true"}), "");
  // Below 1e-6 the verdict on a norm of zero would be wrong.
  EXPECT_THAT(error({.clip = 9e-7}), HasSubstr("recipe.clip_norm = 9e-07 must be 0 or at least 1e-06"));
  EXPECT_THAT(error({.clip = 9e-7}), HasSubstr("nearest valid: 1e-06"));
  EXPECT_THAT(error({.clip = 1e-7}), HasSubstr("nearest valid: 0"));
  EXPECT_EQ(error({.clip = 1e-6}), "");
  EXPECT_EQ(error({.clip = 1e-7, .post_validation = false}), "");
}

// The guess contains a transfer group as a whole or not at all.
TEST(PostValidation, TransferGroupsAreGuessedWhole) {
  Program program = CompileOrDie({.pipe = 3, .microbatches = 6, .post_validation = false});
  Template &first = *program.mutable_templates(0), &second = *program.mutable_templates(1);
  const auto index_of = [](const Template& t, ActionKind kind, int microbatch) {
    int i = 0;
    while (t.body(i).kind() != kind || t.body(i).microbatch() != microbatch) ++i;
    return i;
  };
  // One transfer group sends microbatches 1 and 2 from the first rank to the second; the guess needs only one of them.
  MoveUp(&first, index_of(first, FORWARD, 2), index_of(first, SEND, 1));
  MoveUp(&first, index_of(first, SEND, 2), index_of(first, SEND, 1) + 1);
  MoveUp(&second, index_of(second, RECV, 2), index_of(second, RECV, 1) + 1);
  for (int m = 1; m <= 2; ++m) {
    first.mutable_body(index_of(first, SEND, m))->set_transfer_group(1);
    second.mutable_body(index_of(second, RECV, m))->set_transfer_group(1);
  }
  ASSERT_EQ(VerifyProgram(program, {}), absl::OkStatus());
  ASSERT_EQ(PostValidate(&program), absl::OkStatus());
  EXPECT_EQ(VerifyProgram(program, {}), absl::OkStatus());
  int again[3] = {};
  for (const Action& action : first.body()) {
    if (action.kind() == SEND && action.if_exceeded() && action.microbatch() < 3) ++again[action.microbatch()];
  }
  EXPECT_EQ(again[0], 1);
  EXPECT_EQ(again[1], again[2]);
}

// The copies of KEEP_STATE count when the planner chooses which layers to recompute.
TEST(PostValidation, RecomputeFitsWithWhatIsKept) {
  for (const char* schedule : {"1f1b", "axonn"}) {
    Case c{.schedule = schedule, .pipe = 2};
    if (c.schedule == "axonn") c.schedule_fields = "freeze: true";
    const int64_t needed = PlannedDeviceBytes(CompileOrDie(c)) + TestCluster().device().reserved_bytes();
    c.memory = needed - 1;
    EXPECT_FALSE(CompileCase(c).ok()) << c.Name();
    c.plan_fields = "recompute { mode: FIT }";
    EXPECT_EQ(CompileCase(c).status(), absl::OkStatus()) << c.Name();
  }
}

// FASTEST compares programs as they will run, with post-validation.
TEST(PostValidation, TransfersAreChosenByTheProgramThatRuns) {
  const auto early = [](bool post_validation) {
    const Program program =
        CompileOrDie({.post_validation = post_validation, .plan_fields = "transfer_placement: EARLY"});
    const absl::StatusOr<sim::Simulation> simulation = sim::Simulate(program, TestCluster(), {});
    EXPECT_TRUE(simulation.ok()) << simulation.status();
    return absl::StrFormat("early %.6g s", simulation->report.iteration_seconds());
  };
  std::vector<std::string> notes;
  const absl::StatusOr<Program> program = CompileCase({.plan_fields = "transfer_placement: FASTEST"}, &notes);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(notes, testing::Contains(HasSubstr(early(true))));
  EXPECT_NE(early(true), early(false));
}

}  // namespace
}  // namespace weft
