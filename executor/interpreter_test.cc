#include "executor/interpreter.h"

#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/mesh.h"
#include "proto/status.h"
#include "proto/units.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

// FILL writes value + 1000 * optimizer step + global microbatch; ADD adds; doubles only.
class TinyBackend : public Backend {
 public:
  absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                   const StepContext& context) override {
    if (before) WEFT_RETURN_IF_ERROR(before(step, context));
    double* y = static_cast<double*>(outputs[0].data);
    const int64_t n = *ElementCount(outputs[0].shape);
    for (int64_t i = 0; i < n; ++i) {
      double value = step.attributes().value() + 1000.0 * context.step + context.global_microbatch;
      if (step.kernel() == ADD) {
        value = static_cast<double*>(inputs[0].data)[i] + static_cast<double*>(inputs[1].data)[i];
      }
      y[i] = step.accumulate() ? y[i] + value : value;
    }
    return absl::OkStatus();
  }
  std::function<absl::Status(const Step&, const StepContext&)> before;
};

Program Parse(const std::string& text) {
  Program program;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &program));
  return program;
}

// Two stages, two microbatches, any number of replicas. Stage 0 fills x with 1 + 1000 step + g and sends it; stage 1
// sends 2x back; stage 0 adds both answers to `sum`, which the replicas reduce into LOSSES on stage 0.
Program TwoStages(int replicas) {
  return Parse(absl::StrCat(R"pb(
                              name: "two stages"
                              mesh { axes { name: "data" size:)pb",
                            replicas, R"pb(}
                                           axes { name: "pipe" size: 2 } }
    recipe { global_batch_sequences: 4 lr { peak: 0.5 } }
    microbatches: 2
    segments {
      name: "fill" operands { name: "x" bytes: 16 access: WRITE }
      values { operand: 0 dtype: FP64 shape: 2 }
      steps { name: "fill" kernel: FILL outputs: 0 attributes { value: 1 } }
    }
    segments {
      name: "double" operands { name: "x" bytes: 16 access: READ } operands { name: "y" bytes: 16 access: WRITE }
      values { operand: 0 dtype: FP64 shape: 2 } values { operand: 1 dtype: FP64 shape: 2 }
      steps { name: "double" kernel: ADD inputs: 0 inputs: 0 outputs: 1 }
    }
    segments {
      name: "zero" operands { name: "s" bytes: 16 access: WRITE }
      values { operand: 0 dtype: FP64 shape: 2 }
      steps { name: "zero" kernel: ADD inputs: 0 inputs: 0 outputs: 0 }
    }
    segments {
      name: "sum" operands { name: "y" bytes: 16 access: READ } operands { name: "s" bytes: 16 access: READ_WRITE }
      values { operand: 0 dtype: FP64 shape: 2 } values { operand: 1 dtype: FP64 shape: 2 }
      steps { name: "sum" kernel: ADD inputs: 0 inputs: 1 outputs: 1 }
    }
    templates {
      name: "first" pins { axis: "pipe" index: 0 } device_arena_bytes: 1536
      buffers { name: "x0" bytes: 16 offset: 0 }
      buffers { name: "x1" bytes: 16 offset: 256 }
      buffers { name: "y0" bytes: 16 offset: 512 }
      buffers { name: "y1" bytes: 16 offset: 768 }
      buffers { name: "sum" bytes: 16 offset: 1024 dtype: FP64 shape: 2 persistent: true }
      buffers { name: "losses" bytes: 16 offset: 1280 dtype: FP64 shape: 2 persistent: true role: LOSSES }
      body { id: 0 kind: FORWARD name: "F0" segment: 0 operands: 0 deps { action: 2 distance: 1 } }
      body { id: 1 kind: FORWARD name: "F1" segment: 0 operands: 1 microbatch: 1 deps { action: 3 distance: 1 } }
      body { id: 2 kind: SEND name: "S0" peer { at { axis: "pipe" index: 1 } } direction: TOWARDS_LOSS sources: 0
             deps { action: 0 } }
      body { id: 3 kind: SEND name: "S1" peer { at { axis: "pipe" index: 1 } } direction: TOWARDS_LOSS sources: 1
             deps { action: 1 } }
      body { id: 4 kind: RECV name: "R0" peer { at { axis: "pipe" index: 1 } } direction: FROM_LOSS destinations: 2
             deps { action: 6 distance: 1 } }
      body { id: 5 kind: RECV name: "R1" peer { at { axis: "pipe" index: 1 } } direction: FROM_LOSS destinations: 3
             deps { action: 7 distance: 1 } }
      body { id: 6 kind: BACKWARD name: "B0" segment: 1 operands: 2 operands: 4 deps { action: 4 }
             deps { action: 8 distance: 1 } }
      body { id: 7 kind: BACKWARD name: "B1" segment: 3 operands: 3 operands: 4 deps { action: 5 } }
      body { id: 8 kind: ALL_REDUCE name: "AR" group { axes { axis: "data" } } purpose: LOSS_SYNC algorithm: "ring"
             sources: 4 destinations: 5 deps { action: 7 } }
    }
    templates {
      name: "second" pins { axis: "pipe" index: 1 } device_arena_bytes: 1024
      buffers { name: "x0" bytes: 16 offset: 0 }
      buffers { name: "x1" bytes: 16 offset: 256 }
      buffers { name: "y0" bytes: 16 offset: 512 }
      buffers { name: "y1" bytes: 16 offset: 768 }
      body { id: 0 kind: RECV name: "R0" peer { at { axis: "pipe" index: 0 } } direction: TOWARDS_LOSS destinations: 0
             deps { action: 2 distance: 1 } }
      body { id: 1 kind: RECV name: "R1" peer { at { axis: "pipe" index: 0 } } direction: TOWARDS_LOSS destinations: 1
             deps { action: 3 distance: 1 } }
      body { id: 2 kind: FORWARD name: "F0" segment: 1 operands: 0 operands: 2 deps { action: 0 }
             deps { action: 4 distance: 1 } }
      body { id: 3 kind: FORWARD name: "F1" segment: 1 operands: 1 operands: 3 microbatch: 1 deps { action: 1 }
             deps { action: 5 distance: 1 } }
      body { id: 4 kind: SEND name: "S0" peer { at { axis: "pipe" index: 0 } } direction: FROM_LOSS sources: 2
             deps { action: 2 } }
      body { id: 5 kind: SEND name: "S1" peer { at { axis: "pipe" index: 0 } } direction: FROM_LOSS sources: 3
             deps { action: 3 } }
    }
  )pb"));
}

struct Ranks {
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  std::unique_ptr<ComputeSlots> slots;
  std::vector<std::unique_ptr<Arena>> arenas;
  std::deque<TinyBackend> backends;
  std::vector<std::unique_ptr<Interpreter>> interpreters;
  std::vector<absl::StatusOr<int64_t>> ran;
};

// Runs `repetitions` on a thread per rank; a rank that fails takes the others down.
std::unique_ptr<Ranks> RunRanks(const Program& program, int64_t repetitions, const InterpreterOptions& options,
                                const std::function<void(int, TinyBackend&)>& prepare = {}, int slots = 0) {
  auto ranks = std::make_unique<Ranks>();
  const int count = static_cast<int>(MeshRanks(program.mesh()));
  ranks->endpoints = *(*FindTransport("inproc"))->open(count);
  std::vector<Endpoint*> endpoints;
  for (auto& endpoint : ranks->endpoints) endpoints.push_back(endpoint.get());
  InterpreterOptions rank_options = options;
  if (slots > 0) {
    ranks->slots = std::make_unique<ComputeSlots>(slots, endpoints);
    rank_options.slots = ranks->slots.get();
  }
  for (int rank = 0; rank < count; ++rank) {
    const Template& t = program.templates(TemplateOfRank(program, rank));
    ranks->arenas.push_back(*Arena::Allocate(t.device_arena_bytes(), t.host_arena_bytes()));
    if (prepare) {
      prepare(rank, ranks->backends.emplace_back());
    } else {
      ranks->backends.emplace_back();
    }
    auto interpreter = Interpreter::Create(program, ranks->endpoints[rank].get(), &ranks->backends[rank],
                                           ranks->arenas[rank].get(), rank_options);
    EXPECT_TRUE(interpreter.ok()) << interpreter.status();
    ranks->interpreters.push_back(*std::move(interpreter));
  }
  ranks->ran.assign(count, absl::UnknownError("not run"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      absl::Status status = ranks->interpreters[rank]->RunPrologue();
      if (status.ok()) ranks->ran[rank] = ranks->interpreters[rank]->RunBody(10, repetitions);
      if (status.ok()) status = ranks->ran[rank].status();
      if (status.ok()) status = ranks->interpreters[rank]->RunEpilogue();
      if (!status.ok()) ranks->endpoints[rank]->Abort(status);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ranks;
}

// sum over 2 elements, replicas and microbatches of what stage 0 accumulates: B0 writes 2 * (2 x0), B1 adds 2 x1.
double ExpectedLoss(int replicas, int64_t step) {
  double loss = 0;
  for (int d = 0; d < replicas; ++d) {
    const double x0 = 1 + 1000.0 * step + 2 * d, x1 = x0 + 1;
    loss += 2 * (4 * x0 + 2 * x1);
  }
  return loss;
}

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
      // One at a time and in order on each stream.
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

TEST(InterpreterTest, AFailureNamesRankAndActionAndStopsAll) {
  const Program program = TwoStages(2);
  const auto ranks = RunRanks(program, 50, {}, [](int rank, TinyBackend& backend) {
    if (rank != 3) return;
    backend.before = [](const Step& step, const StepContext& context) {
      return context.step == 14 && step.name() == "double" && context.global_microbatch == 3
                 ? absl::DataLossError("bad sector")
                 : absl::OkStatus();
    };
  });
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(ranks->ran[rank].status().message(), "rank 3, step 14, action 3 'F1', kernel 'double': bad sector")
        << rank;
  }
}

TEST(InterpreterTest, AnInjectedFailureHitsAnyKindOfAction) {
  const Program program = TwoStages(1);
  for (int action : {0, 3, 5, 8}) {
    InterpreterOptions options;
    options.failure = InjectedFailure{.rank = 0, .repetition = 1, .action = action};
    const auto ranks = RunRanks(program, 5, options);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_THAT(std::string(ranks->ran[rank].status().message()),
                  HasSubstr(absl::StrCat("rank 0, step 11, action ", action, " '")));
    }
  }
}

TEST(InterpreterTest, ALossThatIsNotFiniteStopsTheRun) {
  const Program program = TwoStages(1);
  const auto infinite = [](int rank, TinyBackend& backend) {
    if (rank != 0) return;
    backend.before = [](const Step& step, const StepContext& context) {
      if (context.step == 12 && step.name() == "fill") {
        const_cast<Step&>(step).mutable_attributes()->set_value(std::numeric_limits<double>::infinity());
      }
      return absl::OkStatus();
    };
  };
  Program copy = program;
  EXPECT_EQ(RunRanks(copy, 5, {}, infinite)->ran[1].status().message(),
            "rank 0, step 12, action 8 'AR': the loss is not finite (inf)");
  copy = program;
  InterpreterOptions options;
  options.check_finite = false;
  EXPECT_TRUE(RunRanks(copy, 5, options, infinite)->ran[1].ok());
}

TEST(InterpreterTest, AMissingPartnerIsNamedAfterTheTimeout) {
  Program program = TwoStages(1);
  Template* second = program.mutable_templates(1);
  second->mutable_body()->RemoveLast();
  second->mutable_body(3)->mutable_deps()->RemoveLast();
  InterpreterOptions options;
  options.timeout = std::chrono::milliseconds(300);
  const auto ranks = RunRanks(program, 1, options);
  EXPECT_EQ(
      ranks->ran[0].status().message(),
      "rank 0, step 10, action 5 'R1' has waited for rank 1 on 'recv pipe=1 from_loss lane 0' for more than 0.3 s");
}

TEST(InterpreterTest, AllRanksStopAfterTheSameRepetition) {
  for (bool barrier : {false, true}) {
    for (int asked : {0, 1, 3}) {
      Program program = TwoStages(2);
      program.set_step_barrier(barrier);
      std::atomic<bool> stop{false};
      InterpreterOptions options;
      options.stop = &stop;
      const auto ranks = RunRanks(program, 1000, options, [&](int rank, TinyBackend& backend) {
        if (rank != asked) return;
        backend.before = [&](const Step&, const StepContext& context) {
          if (context.step == 15) stop = true;
          return absl::OkStatus();
        };
      });
      const int64_t ran = *ranks->ran[0];
      // The step that they were in when one was asked is the last.
      EXPECT_EQ(ran, 6);
      for (int rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(*ranks->ran[rank], ran);
        EXPECT_EQ(ranks->interpreters[rank]->results().size(), static_cast<size_t>(ran));
        EXPECT_EQ(ranks->interpreters[rank]->results().back().step, 9 + ran);
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
  const Program program = Parse(R"pb(
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
      steps {
        name: "count"
        kernel: FILL
        outputs: 0
        accumulate: true
        attributes { value: 1 }
      }
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
  EXPECT_EQ(*c, 1 + (3 + 1000.0 * 33) + 1);
  EXPECT_EQ(ranks->interpreters[0]->steps_executed(), 1 + 3 * 5 + 1);
}

}  // namespace
}  // namespace weft
