// Collectives of segments, by hand: what they compute and send, what runs meanwhile, and who waits for detached ones.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "executor/interpreter.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/mesh.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

Program Parse(const std::string& text) {
  Program program;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &program));
  return program;
}

// Counts what its rank sends.
class CountingEndpoint : public Endpoint {
 public:
  explicit CountingEndpoint(Endpoint* endpoint) : endpoint_(*endpoint) {}
  int rank() const override { return endpoint_.rank(); }
  int size() const override { return endpoint_.size(); }
  absl::Status PostSend(Transfer* transfer) override {
    ++messages;
    bytes += transfer->bytes;
    return endpoint_.PostSend(transfer);
  }
  absl::Status PostRecv(Transfer* transfer) override { return endpoint_.PostRecv(transfer); }
  absl::StatusOr<bool> Poll() override { return endpoint_.Poll(); }
  absl::StatusOr<bool> WaitForProgress(std::chrono::nanoseconds timeout) override {
    return endpoint_.WaitForProgress(timeout);
  }
  void Wake() override { endpoint_.Wake(); }
  bool Abort(const absl::Status& status) override { return endpoint_.Abort(status); }
  void Note(int64_t step, int32_t action) override { endpoint_.Note(step, action); }
  absl::Status CheckPeers(LastNote* last) override { return endpoint_.CheckPeers(last); }

  int64_t messages = 0;
  int64_t bytes = 0;

 private:
  Endpoint& endpoint_;
};

// Calls `before` before every kernel.
class HookedBackend : public Backend {
 public:
  HookedBackend(int rank, std::function<void(int, const std::string&)> before)
      : rank_(rank), before_(std::move(before)), backend_(MakeCpuBackend(1)) {}
  absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                   const StepContext& context) override {
    if (before_) before_(rank_, step.name());
    return backend_->Run(step, inputs, outputs, context);
  }

 private:
  int rank_;
  std::function<void(int, const std::string&)> before_;
  std::unique_ptr<Backend> backend_;
};

struct Outcome {
  // By rank: its memory, its trace, and what it sent.
  std::vector<std::unique_ptr<Arena>> arenas;
  std::vector<RankTrace> traces;
  std::vector<int64_t> messages, bytes;
  std::vector<absl::Status> statuses;
};

// Element i of buffer 0 is 100 * rank + i at first.
Outcome RunSteps(const Program& program, int64_t repetitions,
                 const std::function<void(int, const std::string&)>& before = nullptr) {
  const int ranks = static_cast<int>(MeshRanks(program.mesh()));
  auto endpoints = *(*FindTransport("inproc"))->open(ranks);
  Outcome outcome;
  outcome.traces.resize(ranks);
  outcome.messages.resize(ranks);
  outcome.bytes.resize(ranks);
  outcome.statuses.resize(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const Template& t = program.templates(TemplateOfRank(program, rank));
    outcome.arenas.push_back(*Arena::Allocate(t.device_arena_bytes(), 0));
    auto* data = reinterpret_cast<float*>(outcome.arenas[rank]->Data(t.buffers(0)));
    for (int i = 0; i < t.buffers(0).bytes() / 4; ++i) data[i] = static_cast<float>(100 * rank + i);
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      HookedBackend backend(rank, before);
      CountingEndpoint endpoint(endpoints[rank].get());
      InterpreterOptions options;
      options.timeout = std::chrono::seconds(20);
      options.trace_repetitions = repetitions;
      const auto run = [&]() -> absl::Status {
        auto interpreter = Interpreter::Create(program, &endpoint, &backend, outcome.arenas[rank].get(), options);
        if (!interpreter.ok()) return interpreter.status();
        if (absl::Status status = (*interpreter)->RunBody(0, repetitions).status(); !status.ok()) return status;
        outcome.traces[rank] = (*interpreter)->TakeTrace();
        return absl::OkStatus();
      };
      outcome.statuses[rank] = run();
      if (!outcome.statuses[rank].ok()) endpoint.Abort(outcome.statuses[rank]);
      outcome.messages[rank] = endpoint.messages;
      outcome.bytes[rank] = endpoint.bytes;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

std::vector<float> Content(const Outcome& outcome, const Program& program, int rank, int buffer) {
  const Template& t = program.templates(TemplateOfRank(program, rank));
  const auto* data = reinterpret_cast<const float*>(outcome.arenas[rank]->Data(t.buffers(buffer)));
  return {data, data + t.buffers(buffer).bytes() / 4};
}

// Ranks x + 2 z. Buffer 0 is summed over x (1), those sums are gathered over z (2), and that is summed and scattered
// over z into 3, added to what is there; that one is detached, and read by the second action (4).
constexpr char kChain[] = R"pb(
  microbatches: 1
  recipe { microbatch_sequences: 2 }
  mesh {
    axes { name: "x" size: 2 }
    axes { name: "z" size: 2 }
  }
  segments {
    name: "chain"
    operands { bytes: 32 access: READ_WRITE }
    operands { bytes: 32 access: WRITE }
    operands { bytes: 64 access: WRITE }
    operands { bytes: 32 access: READ_WRITE }
    operands { bytes: 32 access: WRITE }
    values { operand: 0 dtype: FP32 shape: 8 }
    values { operand: 1 dtype: FP32 shape: 8 }
    values { operand: 2 dtype: FP32 shape: 16 }
    values { operand: 3 dtype: FP32 shape: 8 }
    values { operand: 4 dtype: FP32 shape: 8 }
    steps { name: "keep" kernel: CAST inputs: 0 outputs: 4 }
    steps {
      name: "sum"
      kernel: GROUP_ALL_REDUCE
      inputs: 0
      outputs: 1
      stream: COLLECTIVE
      collective {
        group { axes { axis: "x" } }
        purpose: TENSOR
        algorithm: "ring"
      }
    }
    steps {
      name: "gather"
      kernel: GROUP_ALL_GATHER
      inputs: 1
      outputs: 2
      stream: COLLECTIVE
      deps: 1
      collective {
        group { axes { axis: "z" } }
        purpose: GATHER_WEIGHTS
        algorithm: "ring"
      }
    }
    steps {
      name: "scatter"
      kernel: GROUP_REDUCE_SCATTER
      inputs: 2
      outputs: 3
      stream: COLLECTIVE
      deps: 2
      accumulate: true
      detached: true
      collective {
        group { axes { axis: "z" } }
        purpose: SCATTER_GRADIENTS
        algorithm: "ring"
      }
    }
    steps { name: "use" kernel: ADD inputs: 1 inputs: 4 outputs: 4 deps: 1 }
  }
  segments {
    name: "after"
    operands { bytes: 32 access: READ }
    operands { bytes: 32 access: WRITE }
    values { operand: 0 dtype: FP32 shape: 8 }
    values { operand: 1 dtype: FP32 shape: 8 }
    steps { name: "copy" kernel: CAST inputs: 0 outputs: 1 }
  }
  templates {
    device_arena_bytes: 1536
    buffers { bytes: 32 offset: 0 persistent: true }
    buffers { bytes: 32 offset: 256 persistent: true }
    buffers { bytes: 64 offset: 512 persistent: true }
    buffers { bytes: 32 offset: 768 persistent: true }
    buffers { bytes: 32 offset: 1024 persistent: true }
    buffers { bytes: 32 offset: 1280 persistent: true }
    body {
      id: 1
      name: "chain"
      kind: FORWARD
      segment: 0
      operands: [ 0, 1, 2, 3, 4 ]
      deps { action: 2 distance: 1 }
    }
    body {
      id: 2
      name: "after"
      kind: FORWARD
      segment: 1
      operands: [ 3, 5 ]
      deps { action: 1 detached: true }
    }
  })pb";

TEST(CollectiveStepTest, ResultsMessagesAndStreams) {
  const Program program = Parse(kChain);
  constexpr int kRepetitions = 3;
  const Outcome outcome = RunSteps(program, kRepetitions, [](int rank, const std::string&) {
    std::this_thread::sleep_for(std::chrono::microseconds(100 * (rank % 3)));
  });
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(outcome.statuses[rank].ok()) << outcome.statuses[rank];
    const int z = rank / 2;
    // Sums over x: ranks 2z and 2z + 1.
    const auto sum = [](int at, int i) { return 100.0f * (4 * at + 1) + 2.0f * i; };
    std::vector<float> summed, gathered, scattered, used;
    for (int i = 0; i < 8; ++i) {
      summed.push_back(sum(z, i));
      used.push_back(sum(z, i) + 100.0f * rank + i);
      // The whole is the same on both members: its own half, twice, in each repetition.
      scattered.push_back(2 * kRepetitions * sum(z, i));
    }
    for (int i = 0; i < 16; ++i) gathered.push_back(sum(i / 8, i % 8));
    EXPECT_EQ(Content(outcome, program, rank, 1), summed);
    EXPECT_EQ(Content(outcome, program, rank, 2), gathered);
    EXPECT_EQ(Content(outcome, program, rank, 3), scattered);
    EXPECT_EQ(Content(outcome, program, rank, 4), used);
    EXPECT_EQ(Content(outcome, program, rank, 5), scattered);
    // Rings over two: the all-reduce two halves of 32 bytes, the all-gather its 32, the reduce-scatter half of 64.
    EXPECT_EQ(outcome.messages[rank], kRepetitions * (2 + 1 + 1));
    EXPECT_EQ(outcome.bytes[rank], kRepetitions * (32 + 32 + 32));
    // Compute and three communicators; every step is an event.
    const RankTrace& trace = outcome.traces[rank];
    EXPECT_EQ(trace.events_size(), kRepetitions * 6);
    std::map<std::string, int> events;
    for (const TraceEvent& event : trace.events()) ++events[trace.streams(event.stream())];
    EXPECT_EQ(events, (std::map<std::string, int>{{"compute", 3 * kRepetitions},
                                                  {"TENSOR over x", kRepetitions},
                                                  {"GATHER_WEIGHTS over z", kRepetitions},
                                                  {"SCATTER_GRADIENTS over z", kRepetitions}}));
  }
}

// A flag that one rank raises and another waits for; false after a while.
class Flag {
 public:
  void Raise() {
    std::lock_guard<std::mutex> lock(mutex_);
    raised_ = true;
    changed_.notify_all();
  }
  bool Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return raised_; });
  }
  bool raised() {
    std::lock_guard<std::mutex> lock(mutex_);
    return raised_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool raised_ = false;
};

// Two ranks: "make", a detached reduce-scatter of it and an all-reduce of it in one action, "free" in the next one,
// "wait" in the last, which waits for the detached step.
Program Overlap(bool waits) {
  Program program = Parse(R"pb(
    microbatches: 1
    mesh { axes { name: "x" size: 2 } }
    segments {
      name: "a"
      operands { bytes: 32 access: READ_WRITE }
      operands { bytes: 16 access: WRITE }
      operands { bytes: 32 access: WRITE }
      values { operand: 0 dtype: FP32 shape: 8 }
      values { operand: 1 dtype: FP32 shape: 4 }
      values { operand: 2 dtype: FP32 shape: 8 }
      steps {
        name: "make"
        kernel: FILL
        outputs: 0
        attributes { value: 2 }
      }
      steps {
        name: "scatter"
        kernel: GROUP_REDUCE_SCATTER
        inputs: 0
        outputs: 1
        stream: COLLECTIVE
        deps: 0
        detached: true
        collective {
          group { axes { axis: "x" } }
          purpose: SCATTER_GRADIENTS
          algorithm: "direct"
        }
      }
      steps {
        name: "sum"
        kernel: GROUP_ALL_REDUCE
        inputs: 0
        outputs: 2
        stream: COLLECTIVE
        deps: 0
        detached: true
        collective {
          group { axes { axis: "x" } }
          purpose: TENSOR
          algorithm: "direct"
        }
      }
    }
    segments {
      name: "b"
      operands { bytes: 32 access: WRITE }
      values { operand: 0 dtype: FP32 shape: 8 }
      steps { name: "free" kernel: FILL outputs: 0 }
    }
    segments {
      name: "c"
      operands { bytes: 32 access: WRITE }
      values { operand: 0 dtype: FP32 shape: 8 }
      steps { name: "wait" kernel: FILL outputs: 0 }
    }
    templates {
      device_arena_bytes: 1024
      buffers { bytes: 32 offset: 0 persistent: true }
      buffers { bytes: 16 offset: 256 persistent: true }
      buffers { bytes: 32 offset: 512 persistent: true }
      buffers { bytes: 32 offset: 768 persistent: true }
      body {
        id: 1
        name: "A"
        kind: FORWARD
        segment: 0
        operands: [ 0, 1, 2 ]
      }
      body {
        id: 2
        name: "B"
        kind: FORWARD
        segment: 1
        operands: 3
        deps { action: 1 }
      }
      body {
        id: 3
        name: "C"
        kind: FORWARD
        segment: 2
        operands: 3
        deps { action: 1 }
      }
    })pb");
  program.mutable_templates(0)->mutable_body(2)->mutable_deps(0)->set_detached(waits);
  return program;
}

TEST(CollectiveStepTest, ComputeGoesOnWhileCollectivesWait) {
  const Program program = Overlap(/*waits=*/true);
  Flag free_ran, made;
  std::atomic<bool> too_early{false}, in_time{false};
  const Outcome outcome = RunSteps(program, 1, [&](int rank, const std::string& step) {
    if (rank == 0 && step == "free") free_ran.Raise();
    if (rank == 1 && step == "make") {
      // Both collectives of rank 0 are under way, and its next action runs all the same.
      in_time = free_ran.Wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      made.Raise();
    }
    if (rank == 0 && step == "wait" && !made.raised()) too_early = true;
  });
  for (const absl::Status& status : outcome.statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(in_time);
  EXPECT_FALSE(too_early) << "a dependency with `detached` did not wait for a detached step";
  EXPECT_EQ(Content(outcome, program, 0, 1), std::vector<float>(4, 4));
  EXPECT_EQ(Content(outcome, program, 1, 2), std::vector<float>(8, 4));
}

TEST(CollectiveStepTest, WhoDoesNotAskForDetachedStepsDoesNotWaitForThem) {
  const Program program = Overlap(/*waits=*/false);
  Flag wait_ran;
  std::atomic<bool> in_time{false};
  const Outcome outcome = RunSteps(program, 1, [&](int rank, const std::string& step) {
    if (rank == 0 && step == "wait") wait_ran.Raise();
    if (rank == 1 && step == "make") in_time = wait_ran.Wait();
  });
  for (const absl::Status& status : outcome.statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(in_time);
}

TEST(CollectiveStepTest, StepsAndActionsOfOneCommunicatorShareItsStream) {
  // The action's all-reduce is over the same (group, purpose) as the step's: they match in list order.
  Program program = Parse(kChain);
  Template& t = *program.mutable_templates(0);
  for (Buffer& buffer : *t.mutable_buffers()) {
    buffer.set_dtype(FP32);
    buffer.add_shape(buffer.bytes() / 4);
  }
  Action& action = *t.add_body();
  action.set_id(3);
  action.set_kind(ALL_REDUCE);
  action.set_purpose(TENSOR);
  action.set_algorithm("direct");
  action.mutable_group()->add_axes()->set_axis("x");
  action.add_sources(4);
  action.add_destinations(4);
  action.add_deps()->set_action(1);
  // The next repetition overwrites what it sums.
  Dependency& next = *t.mutable_body(0)->add_deps();
  next.set_action(3);
  next.set_distance(1);
  const Outcome outcome = RunSteps(program, 2);
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(outcome.statuses[rank].ok()) << outcome.statuses[rank];
    EXPECT_EQ(outcome.traces[rank].streams_size(), 4);
    // (sum + own) over both: 3 sums.
    EXPECT_EQ(Content(outcome, program, rank, 4)[1], 3 * (100.0f * (4 * (rank / 2) + 1) + 2));
  }
}

TEST(CollectiveStepTest, GathersAndScattersOfActions) {
  // Blocks of 2 within data = 4: gather 4 elements to 8, and back.
  Program program = Parse(R"pb(
    microbatches: 1
    mesh { axes { name: "data" size: 4 } }
    templates {
      device_arena_bytes: 768
      buffers { bytes: 16 offset: 0 persistent: true dtype: FP32 shape: 4 }
      buffers { bytes: 32 offset: 256 persistent: true dtype: FP32 shape: 8 }
      buffers { bytes: 16 offset: 512 persistent: true dtype: FP32 shape: 4 }
      body {
        id: 1
        kind: ALL_GATHER
        purpose: GRADIENT_SYNC
        algorithm: "ring"
        sources: 0
        destinations: 1
        group { axes { axis: "data" block: 2 } }
      }
      body {
        id: 2
        kind: REDUCE_SCATTER
        purpose: GRADIENT_SYNC
        algorithm: "ring"
        sources: 1
        destinations: 2
        group { axes { axis: "data" stride: 2 } }
        deps { action: 1 }
      }
    })pb");
  const Outcome outcome = RunSteps(program, 1);
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(outcome.statuses[rank].ok()) << outcome.statuses[rank];
    const int block = rank / 2;
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(Content(outcome, program, rank, 1)[i], 100.0f * (2 * block + i / 4) + i % 4);
    }
    // Ranks r and r + 2 sum: 100 * (0 + 2) or 100 * (1 + 3), the first gets the first half.
    for (int i = 0; i < 4; ++i) EXPECT_EQ(Content(outcome, program, rank, 2)[i], 200.0f + 200 * block + 2 * i);
  }
}

TEST(CollectiveStepTest, SizesThatDoNotMatchAreRefused) {
  Program program = Parse(kChain);
  program.mutable_segments(0)->mutable_values(2)->set_shape(0, 12);
  const Outcome outcome = RunSteps(program, 1);
  EXPECT_THAT(std::string(outcome.statuses[0].message()),
              HasSubstr("rank 0: action 1 'chain': all-gather over 2 members from 8 to 12 elements"));
}

}  // namespace
}  // namespace weft
