#include "executor/interpreter/interpreter.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "executor/testing/two_stages_testing.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "tests/parse_text.h"

namespace weft::exec {
namespace {

TEST(InterpreterTest, MovesDataThroughStagesAndReplicas) {
  for (int replicas : {1, 2, 3}) {
    const Program program = TwoStages(replicas);
    const auto ranks = RunRanks(program, 20, {});
    for (int rank = 0; rank < 2 * replicas; ++rank) {
      ASSERT_TRUE(ranks->ran[rank].ok()) << ranks->ran[rank].status();
      const auto& results = ranks->interpreters[rank]->results();
      ASSERT_EQ(results.size(), 20u);
      for (int64_t k = 0; k < 20; ++k) {
        EXPECT_EQ(results[k].step, 10 + k);
        EXPECT_EQ(results[k].learning_rate, 0.5);
        if (rank < replicas) {
          EXPECT_EQ(results[k].loss, ExpectedLoss(replicas, 10 + k)) << rank << " " << k;
        }
      }
    }
  }
}

TEST(InterpreterTest, SlotsLimitHowManyCompute) {
  const Program program = TwoStages(2);
  for (int slots : {1, 2, 4}) {
    std::atomic<int> busy{0}, most{0};
    const auto ranks = RunRanks(
        program, 20, {},
        [&](int, TinyBackend& backend) {
          backend.before = [&](const Step&, const StepContext&) {
            const int now = ++busy;
            if (now > most) most = now;
            std::this_thread::sleep_for(std::chrono::microseconds(50));
            --busy;
            return absl::OkStatus();
          };
        },
        slots);
    ASSERT_TRUE(ranks->ran[0].ok()) << ranks->ran[0].status();
    EXPECT_EQ(ranks->interpreters[1]->results()[1].loss, ExpectedLoss(2, 11));
    EXPECT_LE(most, slots);
  }
}

TEST(InterpreterTest, TheTraceObeysTheOrderRules) {
  const Program program = TwoStages(2);
  InterpreterOptions options;
  options.trace_repetitions = 100;
  options.trace_epoch_ns = MonotonicNanoseconds();
  const auto ranks = RunRanks(program, 6, options);
  for (int rank = 0; rank < 4; ++rank) {
    const Template& t = program.templates(TemplateOfRank(program, rank));
    const RankTrace trace = ranks->interpreters[rank]->TakeTrace();
    EXPECT_EQ(trace.rank(), rank);
    EXPECT_EQ(trace.template_name(), t.name());
    EXPECT_EQ(trace.events_size(), 6 * t.body_size());
    std::map<std::pair<int, int>, const TraceEvent*> by_action;
    std::map<int, const TraceEvent*> before;
    for (const TraceEvent& event : trace.events()) {
      by_action[{event.repetition(), event.action()}] = &event;
      EXPECT_GE(event.ready_ps(), 0);
      EXPECT_LE(event.ready_ps(), event.start_ps());
      EXPECT_LE(event.start_ps(), event.end_ps());
      EXPECT_LE(event.end_ps(), event.finish_ps());
      // The steps of a stream run one at a time and in order.
      if (const TraceEvent* last = std::exchange(before[event.stream()], &event)) {
        EXPECT_LE(last->end_ps(), event.start_ps()) << trace.streams(event.stream());
        EXPECT_LT(std::pair(last->repetition(), last->action()), std::pair(event.repetition(), event.action()));
      }
    }
    for (const Action& action : t.body()) {
      for (int k = 0; k < 6; ++k) {
        const TraceEvent& event = *by_action.at({k, action.id()});
        for (const Dependency& dep : action.deps()) {
          if (k < dep.distance()) continue;
          EXPECT_LE(by_action.at({k - dep.distance(), dep.action()})->finish_ps(), event.start_ps())
              << action.name() << " repetition " << k;
        }
      }
    }
  }
}

TEST(InterpreterTest, ABarrierKeepsRepetitionsApart) {
  Program program = TwoStages(2);
  program.set_step_barrier(true);
  InterpreterOptions options;
  options.trace_repetitions = 100;
  const auto ranks = RunRanks(program, 4, options);
  std::vector<int64_t> first(4, INT64_MAX), last(4, 0);
  for (int rank = 0; rank < 4; ++rank) {
    const RankTrace trace = ranks->interpreters[rank]->TakeTrace();
    for (const TraceEvent& event : trace.events()) {
      first[event.repetition()] = std::min(first[event.repetition()], event.start_ps());
      last[event.repetition()] = std::max(last[event.repetition()], event.finish_ps());
    }
  }
  for (int k = 1; k < 4; ++k) EXPECT_GE(first[k], last[k - 1]);
}

// One rank: a segment over three streams, with a detached step that a later step waits for; prologue and epilogue.
TEST(InterpreterTest, StreamsOfASegmentWaitForNamedSteps) {
  const Program program = Parse<Program>(R"pb(
    mesh { axes { name: "pipe" size: 1 } }
    microbatches: 1
    segments {
      name: "streams"
      operands { name: "a" bytes: 64 access: READ_WRITE }
      operands { name: "b" bytes: 64 access: READ_WRITE }
      values { operand: 0 dtype: FP64 shape: 1 }
      values { operand: 1 dtype: FP64 shape: 1 }
      steps {
        name: "one"
        kernel: FILL
        outputs: 0
        attributes { value: 1 }
      }
      steps { name: "copied" kernel: ADD inputs: 0 inputs: 0 outputs: 1 stream: D2H deps: 0 }
      steps { name: "back" kernel: ADD inputs: 1 inputs: 1 outputs: 0 stream: H2D deps: 1 detached: true }
      steps { name: "last" kernel: ADD inputs: 0 inputs: 1 outputs: 1 deps: 2 }
    }
    segments {
      name: "count"
      operands { name: "c" bytes: 64 access: READ_WRITE }
      values { operand: 0 dtype: FP64 shape: 1 }
      values { operand: 0 dtype: FP64 shape: 1 offset: 8 }
      steps {
        name: "one"
        kernel: FILL
        outputs: 1
        attributes { value: 1 }
      }
      steps { name: "count" kernel: ADD inputs: 1 inputs: 1 outputs: 0 accumulate: true }
    }
    templates {
      name: "only"
      device_arena_bytes: 768
      buffers { name: "a" bytes: 64 offset: 0 persistent: true }
      buffers { name: "b" bytes: 64 offset: 256 dtype: FP64 shape: 1 persistent: true role: LOSSES }
      buffers { name: "c" bytes: 64 offset: 512 persistent: true }
      prologue { id: 0 kind: FORWARD name: "P" segment: 1 operands: 2 }
      body {
        id: 1
        kind: FORWARD
        name: "S"
        segment: 0
        operands: 0
        operands: 1
        deps { action: 0 }
        deps { action: 2 distance: 2 }
      }
      body {
        id: 2
        kind: FORWARD
        name: "C"
        segment: 1
        operands: 2
        deps { action: 1 }
      }
      epilogue {
        id: 3
        kind: FORWARD
        name: "E"
        segment: 1
        operands: 2
        deps { action: 2 }
        deps { action: 0 }
      }
    }
  )pb");
  const auto ranks = RunRanks(program, 3, {});
  ASSERT_TRUE(ranks->ran[0].ok()) << ranks->ran[0].status();
  const auto& results = ranks->interpreters[0]->results();
  for (int k = 0; k < 3; ++k) {
    // one = v, copied = 2 v, back = 4 v, last = 6 v.
    EXPECT_EQ(results[k].loss, 6 * (1 + 1000.0 * (10 + k)));
  }
  // Prologue and epilogue run as step 0.
  const double* c = reinterpret_cast<const double*>(ranks->arenas[0]->Data(program.templates(0).buffers(2)));
  EXPECT_EQ(*c, 2 * (1 + (3 + 1000.0 * 33) + 1));
  EXPECT_EQ(ranks->interpreters[0]->steps_executed(), 2 + 3 * 6 + 2);
}

}  // namespace
}  // namespace weft::exec
