// Tests programs of schedules that never drain the pipeline (rule P14): what they hold, their period, and that the
// verifier refuses broken ones.
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/compile.h"
#include "schedules/pipeline/timing.h"
#include "simulator/naive/naive_simulator.h"
#include "simulator/simulate.h"
#include "tests/parse_text.h"
#include "verifier/testing/brute_force.h"
#include "verifier/verify.h"

namespace weft {
namespace {

using testing::HasSubstr;

ModelGraph Model(bool tied = false) {
  return TinyGpt2(6, absl::StrCat(R"(, "tie_word_embeddings": )", tied ? "true" : "false"));
}

struct Case {
  std::string schedule = "pipedream";
  int pipe = 3;
  // Microbatches per iteration and replica.
  int microbatches = 1;
  int data = 1;
  std::string recipe = "steps: 12 clip_norm: 0";
  std::string plan = "";
  bool tied = false;

  std::string Name() const { return absl::StrCat(schedule, " ", pipe, " ", microbatches, " ", data, " ", plan); }
};

absl::StatusOr<Program> CompileCase(const Case& c, std::vector<std::string>* notes = nullptr) {
  planner::CompileOptions options;
  options.notes = notes;
  return planner::CompilePlan(
      Model(c.tied),
      Parse<Recipe>(absl::StrCat("sequence_length: 16 microbatch_sequences: 1 global_batch_sequences: ",
                                 c.microbatches * c.data, " ", c.recipe)),
      Parse<Plan>(absl::StrCat("mesh { axes { name: 'data' size: ", c.data, " } axes { name: 'pipe' size: ", c.pipe,
                               " } } schedule { name: '", c.schedule, "' } ", c.plan)),
      TinyCluster(), options);
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (int pipe = 1; pipe <= 4; ++pipe) cases.push_back({"pipedream", pipe});
  cases.push_back({"pipedream-2bw", 1, 2});
  cases.push_back({"pipedream-2bw", 2, 3});
  cases.push_back({"pipedream-2bw", 3, 3});
  cases.push_back({"pipedream-2bw", 4, 5});
  cases.push_back({"pipedream", 2, 1, 2});
  cases.push_back({"pipedream-2bw", 2, 2, 2});
  cases.push_back({.pipe = 4, .plan = "receive_buffers: 2 send_buffers: 1"});
  for (Case& c : cases) {
    if (c.schedule == "pipedream") c.recipe = absl::StrCat("clip_norm: 0 steps: ", 4 * c.pipe);
  }
  return cases;
}

// Compile has already verified each program. FindFault is a second, slow check: it runs the program with random
// durations.
TEST(Asynchronous, ProgramsAreSound) {
  for (const Case& c : Cases()) {
    std::vector<std::string> notes;
    const absl::StatusOr<Program> program = CompileCase(c, &notes);
    ASSERT_TRUE(program.ok()) << c.Name() << ": " << program.status();
    EXPECT_FALSE(program->has_evaluation());
    const int updates = c.schedule == "pipedream" ? c.pipe : 2;
    EXPECT_EQ(program->steps_per_repetition(), updates) << c.Name();
    EXPECT_EQ(program->microbatches(), updates * c.microbatches) << c.Name();
    for (const Template& t : program->templates()) {
      std::set<int> versions;
      for (const Buffer& buffer : t.buffers()) {
        if (buffer.role() == PARAM) versions.insert(buffer.version());
      }
      int optimizer_steps = 0;
      for (const Action& action : t.body()) optimizer_steps += action.kind() == OPTIMIZER_STEP;
      EXPECT_EQ(optimizer_steps, updates) << c.Name();
      const int rank = static_cast<int>(t.pins(0).index());
      const int needed = c.schedule == "pipedream" ? c.pipe - rank : 2;
      EXPECT_GE(static_cast<int>(versions.size()), needed) << c.Name();
    }
    EXPECT_EQ(FindFault(*program, 2, 1), "") << c.Name();
  }
}

// If stages are equal and transfers are free, there is no bubble. A repetition of U iterations then takes exactly N (F
// + B), as the schedule predicts, where N counts its microbatches.
TEST(Asynchronous, SteadyPeriodHasNoBubble) {
  for (const Case& c : Cases()) {
    const absl::StatusOr<Program> program = CompileCase(c);
    ASSERT_TRUE(program.ok()) << c.Name() << ": " << program.status();
    for (const auto& [forward, backward] : {std::pair(1000, 2000), {3000, 1000}}) {
      sim::SimulateOptions options;
      options.cost = "unit";
      options.network = "none";
      options.cost_options.unit_forward = {forward};
      options.cost_options.unit_backward = {backward};
      const absl::StatusOr<sim::Simulation> simulation = sim::Simulate(*program, TinyCluster(), options);
      ASSERT_TRUE(simulation.ok()) << simulation.status();
      const int n = program->microbatches();
      const int64_t period = std::llround(simulation->report.iteration_seconds() * 1e12);
      EXPECT_EQ(period, int64_t{n} * (forward + backward)) << c.Name();

      const int own = std::max(c.microbatches, c.pipe);
      const absl::StatusOr<PipelineSchedule> schedule =
          BuildSchedule(**FindSchedule(c.schedule), {.ranks = c.pipe, .microbatches = own});
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      const auto timing = TimeSchedule(*schedule, own, {.forward = forward, .backward = backward, .weight = 1});
      ASSERT_TRUE(timing.ok()) << timing.status();
      EXPECT_EQ(period * own * timing->period_repetitions, timing->period * n) << c.Name();

      // The naive simulation below is slow, so run it only for small sizes.
      if (n > 6) continue;
      sim::NaiveDurations durations;
      durations.step = [&, f = forward, b = backward](const sim::NaiveStepCall& call) -> int64_t {
        return call.step > 0 ? 0 : call.kind == FORWARD ? f : call.kind == BACKWARD ? b : 0;
      };
      durations.transfer = [](int64_t, int64_t, int64_t) { return sim::NaiveTime{}; };
      durations.collective = [](const sim::NaiveCollective&) { return sim::NaiveTime{}; };
      const sim::NaiveResult naive = sim::SimulateNaively(*program, durations, {.repetitions = 3});
      ASSERT_TRUE(naive.complete);
      EXPECT_EQ(naive.repetition_finish[2] - naive.repetition_finish[1], period) << c.Name();
      const sim::NaiveResult one = sim::SimulateNaively(*program, durations);
      EXPECT_EQ(one.makespan, std::llround(simulation->report.makespan_seconds() * 1e12)) << c.Name();
    }
  }
}

// Rates count the tokens and flops of all optimizer steps of a repetition.
TEST(Asynchronous, RatesCountAllSteps) {
  const absl::StatusOr<Program> program = CompileCase({.pipe = 3});
  ASSERT_TRUE(program.ok()) << program.status();
  const absl::StatusOr<sim::Simulation> simulation = sim::Simulate(*program, TinyCluster(), {});
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  EXPECT_EQ(simulation->report.tokens_per_step(), 16);
  EXPECT_NEAR(simulation->report.tokens_per_second() * simulation->report.iteration_seconds(), 3 * 16, 1e-6);
}

std::string ErrorOf(const Case& c) { return std::string(CompileCase(c).status().message()); }

void AsynchronousLimits() {
  Cluster cluster = TinyCluster();
  cluster.set_nodes(1000);
  const absl::Status status =
      planner::CompilePlan(Model(), Parse<Recipe>("sequence_length: 16 global_batch_sequences: 1 clip_norm: 0"),
                           Parse<Plan>("mesh { axes { name: 'pipe' size: 4000 } } schedule { name: 'pipedream' }"),
                           cluster, {})
          .status();
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("'pipedream' on 4000 pipe ranks repeats after up to 8000 microbatches; at most 65 microbatches can"));
}

TEST(Asynchronous, RefusesWhatItCannotDo) {
  EXPECT_THAT(ErrorOf({.recipe = "steps: 12"}), HasSubstr("recipe.clip_norm = 1; set recipe.clip_norm=0"));
  EXPECT_THAT(
      ErrorOf({.recipe = "steps: 13 clip_norm: 0"}),
      HasSubstr("recipe.steps = 13; allowed: multiples of 3 (the optimizer steps of a repetition); nearest valid: 12"));
  EXPECT_THAT(ErrorOf({.recipe = "steps: 1 clip_norm: 0"}), HasSubstr("nearest valid: 3"));
  EXPECT_EQ(CompileCase({.recipe = "clip_norm: 0"})->recipe().steps(), 3);
  EXPECT_THAT(ErrorOf({.tied = true}), HasSubstr("tensor 'transformer.wte.weight' is used in 2 places (tied)"));
  EXPECT_THAT(ErrorOf({.plan = "accumulation: EXACT"}), HasSubstr("allowed: IN_ORDER"));
  EXPECT_THAT(ErrorOf({.plan = "transfer_order: TOGETHER"}), HasSubstr("plan.transfer_order"));
  EXPECT_THAT(
      ErrorOf({.microbatches = 5}),
      HasSubstr(
          "'pipedream' updates after every microbatch: recipe.global_batch_sequences = 5 makes 5 microbatches per "
          "step and data replica; nearest valid: 1"));
  EXPECT_THAT(ErrorOf({"pipedream-2bw", 4, 3}),
              HasSubstr("needs at least 4 microbatches per update: recipe.global_batch_sequences = 3"));
  EXPECT_THAT(ErrorOf({"pipedream-2bw", 4, 3}), HasSubstr("nearest valid: 4"));
  // These limits apply before any list is built.
  AsynchronousLimits();
}

// Each entry breaks one rule of a PipeDream program on three ranks.
struct Broken {
  const char* rule;
  std::function<void(Program*)> edit;
  const char* says;
};

Action* Find(Program* program, int t, const std::string& name, int nth = 0) {
  for (Action& action : *program->mutable_templates(t)->mutable_body()) {
    if (action.name() == name && nth-- == 0) return &action;
  }
  ADD_FAILURE() << "no action " << name;
  return program->mutable_templates(t)->mutable_body(0);
}

void Remove(Program* program, int t, const Action& action) {
  auto& list = *program->mutable_templates(t)->mutable_body();
  const int id = action.id();
  list.erase(std::find_if(list.begin(), list.end(), [&](const Action& a) { return a.id() == id; }));
}

// Makes the action bind copy `version` of every PARAM that it binds.
void UseVersion(Program* program, int t, Action* action, int version) {
  const Template& in = program->templates(t);
  for (int& operand : *action->mutable_operands()) {
    if (in.buffers(operand).role() != PARAM) continue;
    for (int b = 0; b < in.buffers_size(); ++b) {
      if (in.buffers(b).role() == PARAM && in.buffers(b).tensor() == in.buffers(operand).tensor() &&
          in.buffers(b).version() == version) {
        operand = b;
        break;
      }
    }
  }
}

TEST(Asynchronous, BrokenProgramsAreRefused) {
  const std::vector<Broken> corpus = {
      {"P14.version", [](Program* p) { UseVersion(p, 0, Find(p, 0, "B s0 m0"), 1); },
       "the forward of its microbatch has used weights after"},
      // The update overwrites the copy that the next backward uses.
      {"P14.version", [](Program* p) { UseVersion(p, 0, Find(p, 0, "optimizer s0", 0), 1); }, "'B s0 m1': reads"},
      {"P14.step", [](Program* p) { Find(p, 0, "optimizer s0", 1)->set_step(0); }, "is of optimizer step 0"},
      {"P14.step", [](Program* p) { Find(p, 0, "optimizer s0", 1)->set_step(3); }, "is not in [0, 3)"},
      {"P14.step", [](Program* p) { Find(p, 0, "B s0 m1")->set_step(4); }, "is of step 1"},
      {"P14.step",
       [](Program* p) {
         for (Action& a : *p->mutable_templates(0)->mutable_body()) {
           if (a.kind() == SEND) a.set_step(1);
         }
       },
       "only forwards, backwards and OPTIMIZER_STEP"},
      {"P14.ahead", [](Program* p) { Find(p, 0, "F s0 m1")->set_step(1); }, "in the prologue but not in the body"},
      {"P9.gradient", [](Program* p) { Remove(p, 0, *Find(p, 0, "optimizer s0", 1)); }, "P14.step"},
      {"P13.complete",
       [](Program* p) {
         Action& backward = *Find(p, 0, "B s0 m1");
         backward.set_microbatch(0);
         backward.set_step(0);
       },
       "sees microbatch 0 twice"},
      {"P14.program", [](Program* p) { p->mutable_recipe()->set_clip_norm(1); }, "clip_norm 0"},
      {"P14.program", [](Program* p) { p->set_steps_per_repetition(2); }, "same number of microbatches"},
      {"P14.program", [](Program* p) { p->set_compute_order(ARRIVAL); }, "STATIC_ORDER"},
      {"P14.program",
       [](Program* p) {
         Action& last = *p->mutable_templates(0)->add_epilogue();
         last = p->templates(0).body(0);
         last.set_id(1000);
       },
       "must have no epilogue"},
      {"P7.role",
       [](Program* p) {
         for (Buffer& b : *p->mutable_templates(0)->mutable_buffers()) {
           if (b.role() == PARAM) b.set_version(0);
         }
       },
       "has the same role"},
      {"P7.role",
       [](Program* p) {
         for (Buffer& b : *p->mutable_templates(0)->mutable_buffers()) {
           if (b.role() == MASTER) b.set_version(1);
         }
       },
       "has version 1"},
      // A received value overwrites a value that a microbatch in flight keeps, as in a ring that is one place too
      // small.
      {"P7.race",
       [](Program* p) {
         for (Template& t : *p->mutable_templates()) {
           for (Action& a : *t.mutable_body()) {
             if (a.kind() == RECV) a.clear_deps();
           }
         }
       },
       "neither waits for the other"},
      // The prologue computed another microbatch than the body expects.
      {"P14.ahead",
       [](Program* p) {
         for (Action& a : *p->mutable_templates(0)->mutable_prologue()) {
           if (a.name() != "F s0 m0") continue;
           a.set_microbatch(2);
           a.set_step(5);
         }
       },
       "in the body but not in the prologue"},
      // The last stage runs ahead, so its loss belongs to another iteration.
      {"P14.ahead", [](Program* p) { Find(p, 2, "F s2 m0")->set_step(3); }, "in the body but not in the prologue"},
      // Two places of a ring are the same buffer.
      {"P7.race",
       [](Program* p) {
         Template& t = *p->mutable_templates(1);
         int first = -1;
         for (int b = 0; b < t.buffers_size(); ++b) {
           if (t.buffers(b).name() == "input s1 place 0") first = b;
         }
         for (Action& a : *t.mutable_body()) {
           for (int& b : *a.mutable_operands()) b = t.buffers(b).name() == "input s1 place 1" ? first : b;
           for (int& b : *a.mutable_destinations()) b = t.buffers(b).name() == "input s1 place 1" ? first : b;
         }
       },
       "input s1 place 0"},
      {"P9.batch", [](Program* p) { p->mutable_recipe()->set_global_batch_sequences(3); }, "is 3"},
  };
  const absl::StatusOr<Program> program = CompileCase({.pipe = 3});
  ASSERT_TRUE(program.ok()) << program.status();
  for (size_t i = 0; i < corpus.size(); ++i) {
    Program broken = *program;
    corpus[i].edit(&broken);
    std::string all;
    bool found = false;
    for (const Finding& finding : FindViolations(broken)) {
      const std::string text = absl::StrCat("[", finding.rule, "] ", finding.message, "\n");
      found = found || (finding.rule == corpus[i].rule && finding.message.find(corpus[i].says) != std::string::npos) ||
              finding.rule == corpus[i].says;
      all += text;
    }
    EXPECT_TRUE(found) << "case " << i << " expected " << corpus[i].rule << ": " << corpus[i].says << ", found:\n"
                       << all;
  }
}

}  // namespace
}  // namespace weft
