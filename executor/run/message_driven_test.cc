// Tests orders of compute that are chosen at run time, shared transfer streams, and transfer groups in the interpreter.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "executor/interpreter/interpreter.h"
#include "executor/testing/test_pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"

namespace weft::exec {
namespace {

using ::testing::ElementsAre;

// Calls a function before each step, which may wait.
class SlowBackend : public AddingBackend {
 public:
  absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                   const StepContext& context) override {
    if (before) before(step, context);
    return AddingBackend::Run(step, inputs, outputs, context);
  }
  std::function<void(const Step&, const StepContext&)> before;
};

struct RankRun {
  absl::Status status;
  std::vector<StepResult> results;
  RankTrace trace;
};

constexpr int64_t kFirstStep = 10;

std::vector<RankRun> RunRanks(const Program& program, int64_t repetitions, int slots = 0,
                              const std::function<void(int, SlowBackend&)>& prepare = {}) {
  const int count = static_cast<int>(MeshRanks(program.mesh()));
  auto endpoints = *(*FindTransport("inproc"))->open(count);
  std::vector<Endpoint*> pointers;
  for (auto& endpoint : endpoints) pointers.push_back(endpoint.get());
  ComputeSlots compute_slots(std::max(slots, 1), pointers);
  InterpreterOptions options;
  options.timeout = std::chrono::seconds(20);
  options.trace_repetitions = repetitions;
  options.trace_epoch_ns = MonotonicNanoseconds();
  if (slots > 0) options.slots = &compute_slots;
  std::vector<RankRun> runs(count);
  std::deque<SlowBackend> backends(count);
  std::vector<std::unique_ptr<Arena>> arenas;
  for (int rank = 0; rank < count; ++rank) {
    const Template& t = program.templates(TemplateOfRank(program, rank));
    arenas.push_back(*Arena::Allocate(t.device_arena_bytes(), t.host_arena_bytes()));
    if (prepare) prepare(rank, backends[rank]);
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      auto interpreter =
          Interpreter::Create(program, endpoints[rank].get(), &backends[rank], arenas[rank].get(), options);
      RankRun& run = runs[rank];
      run.status = interpreter.status();
      if (run.status.ok()) run.status = (*interpreter)->RunBody(kFirstStep, repetitions).status();
      if (!run.status.ok()) {
        endpoints[rank]->Abort(run.status);
        return;
      }
      run.results = (*interpreter)->results();
      run.trace = (*interpreter)->TakeTrace();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return runs;
}

void ExpectRightResults(const TestPipeline& pipeline, const std::vector<RankRun>& runs) {
  for (const RankRun& run : runs) ASSERT_TRUE(run.status.ok()) << run.status;
  for (const StepResult& result : runs[0].results) {
    EXPECT_EQ(result.loss, TestPipelineLoss(pipeline, kFirstStep, result.step)) << result.step;
  }
}

// Names of a rank's compute actions of one repetition in the order in which they ran.
std::vector<std::string> ComputeOrderOf(const Template& t, const RankTrace& trace, int repetition) {
  std::vector<std::string> names;
  int last = -1;
  for (const TraceEvent& event : trace.events()) {
    if (event.repetition() != repetition || trace.streams(event.stream()) != "compute") continue;
    if (event.action() != std::exchange(last, event.action())) names.push_back(t.body(event.action()).name());
  }
  return names;
}

TEST(MessageDrivenTest, EveryOrderAndSharingGivesTheSameResults) {
  const std::vector<std::tuple<ComputeOrder, TransferStreams, bool>> cases = {
      {STATIC_ORDER, PER_EDGE, false},      {STATIC_ORDER, PER_EDGE, true},
      {STATIC_ORDER, PER_DIRECTION, false}, {STATIC_ORDER, SHARED, true},
      {ARRIVAL, PER_EDGE, false},           {ARRIVAL, PER_DIRECTION, false},
      {BACKWARD_FIRST, PER_EDGE, false},    {BACKWARD_FIRST, PER_DIRECTION, false}};
  for (const auto& [order, streams, groups] : cases) {
    for (const int ranks : {1, 2, 3, 4}) {
      for (const int slots : {0, 1}) {
        const TestPipeline pipeline = {
            .ranks = ranks, .microbatches = 6, .order = order, .streams = streams, .limit = ranks, .groups = groups};
        SCOPED_TRACE(testing::Message() << "order " << order << " streams " << streams << " groups " << groups
                                        << " ranks " << ranks << " slots " << slots);
        ExpectRightResults(pipeline, RunRanks(TestPipelineProgram(pipeline), 5, slots));
      }
    }
  }
}

// Each queue keeps its order, no action passes one that is in both queues, and one action runs at a time.
TEST(MessageDrivenTest, QueuesKeepTheirOrder) {
  const TestPipeline pipeline = {.ranks = 3, .microbatches = 8, .order = ARRIVAL, .limit = 3};
  const Program program = TestPipelineProgram(pipeline);
  const std::vector<RankRun> runs = RunRanks(program, 4, 0, [](int rank, SlowBackend& backend) {
    backend.before = [rank](const Step&, const StepContext& context) {
      std::this_thread::sleep_for(std::chrono::microseconds((context.global_microbatch * 7 + rank * 5) % 4 * 100));
    };
  });
  ExpectRightResults(pipeline, runs);
  for (int rank = 0; rank < 3; ++rank) {
    const Template& t = program.templates(rank);
    for (int k = 0; k < 4; ++k) {
      const std::vector<std::string> order = ComputeOrderOf(t, runs[rank].trace, k);
      ASSERT_EQ(order.size(), 17u);
      EXPECT_EQ(order.back()[0], 'e');
      for (const char kind : {'F', 'B'}) {
        std::vector<std::string> of_kind;
        for (const std::string& name : order) {
          if (name[0] == kind) of_kind.push_back(name);
        }
        ASSERT_EQ(of_kind.size(), 8u);
        EXPECT_TRUE(std::is_sorted(of_kind.begin(), of_kind.end()));
      }
    }
    int64_t end = 0;
    for (const TraceEvent& event : runs[rank].trace.events()) {
      if (runs[rank].trace.streams(event.stream()) != "compute") continue;
      EXPECT_GE(event.start_ps(), std::exchange(end, event.end_ps()));
    }
  }
}

// The middle one of three ranks is still busy with its second forward when both the message for the third forward and
// the first gradient have arrived.
TEST(MessageDrivenTest, TheRuleDecidesWhenBothAreReady) {
  constexpr auto kArrives = std::chrono::milliseconds(200);
  const auto order_of = [&](ComputeOrder order) {
    const TestPipeline pipeline = {.ranks = 3, .microbatches = 3, .order = order, .limit = 3};
    const Program program = TestPipelineProgram(pipeline);
    std::atomic<bool> third_forward{false}, first_gradient{false};
    const auto wait_for = [](const std::atomic<bool>& flag) {
      while (!flag) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    const std::vector<RankRun> runs = RunRanks(program, 1, 0, [&](int rank, SlowBackend& backend) {
      backend.before = [&, rank](const Step& step, const StepContext& context) {
        const int64_t m = context.global_microbatch;
        if (rank == 0 && step.name() == "fill 0" && m == 2) third_forward = true;
        if (rank == 2 && step.name() == "answer 0" && m == 0) {
          wait_for(third_forward);
          std::this_thread::sleep_for(kArrives);
          first_gradient = true;
        }
        if (rank == 1 && step.name() == "double 0" && m == 1) {
          wait_for(first_gradient);
          std::this_thread::sleep_for(kArrives);
        }
      };
    });
    ExpectRightResults(pipeline, runs);
    return ComputeOrderOf(program.templates(1), runs[1].trace, 0);
  };
  std::vector<std::string> order = order_of(ARRIVAL);
  order.resize(4);
  EXPECT_THAT(order, ElementsAre("F s1 m0", "F s1 m1", "F s1 m2", "B s1 m0"));
  // Compare only the start: after the first backward, the second backward may be ready too.
  order = order_of(BACKWARD_FIRST);
  order.resize(3);
  EXPECT_THAT(order, ElementsAre("F s1 m0", "F s1 m1", "B s1 m0"));
}

// The last rank's backward waits for no message, so it runs directly after its forward, even if the next forward is
// ready too.
TEST(MessageDrivenTest, ActionsThatWaitForNoMessageComeFirst) {
  for (const ComputeOrder order : {ARRIVAL, BACKWARD_FIRST}) {
    const TestPipeline pipeline = {.ranks = 2, .microbatches = 4, .order = order, .limit = 4};
    const Program program = TestPipelineProgram(pipeline);
    const std::vector<RankRun> runs = RunRanks(program, 1, 0, [](int rank, SlowBackend& backend) {
      if (rank == 0) return;
      backend.before = [](const Step& step, const StepContext& context) {
        if (step.name() == "double 0" && context.global_microbatch == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
      };
    });
    ExpectRightResults(pipeline, runs);
    EXPECT_THAT(ComputeOrderOf(program.templates(1), runs[1].trace, 0),
                ElementsAre("F s1 m0", "B s1 m0", "F s1 m1", "B s1 m1", "F s1 m2", "B s1 m2", "F s1 m3", "B s1 m3",
                            "end s1 m0"));
  }
}

}  // namespace
}  // namespace weft::exec
