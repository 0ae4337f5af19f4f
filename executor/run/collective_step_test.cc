// Collectives of segments and of actions in hand-written programs: what they compute, what they send, and on which
// streams.
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "executor/testing/collective_run_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

// Rank = x + 2 z. Buffer 1 is the sum of buffer 0 over x, and buffer 2 gathers these sums over z. A detached step sums
// buffer 2 over z and scatters it into buffer 3, where it is added to what is there. The second action waits for the
// detached step and copies buffer 3 into buffer 5.
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
  const Program program = Parse<Program>(kChain);
  constexpr int kRepetitions = 3;
  const Outcome outcome = RunSteps(program, kRepetitions, [](int rank, const std::string&) {
    std::this_thread::sleep_for(std::chrono::microseconds(100 * (rank % 3)));
  });
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(outcome.statuses[rank].ok()) << outcome.statuses[rank];
    const int z = rank / 2;
    // Returns an element of the sum over x, that is, over ranks 2 `at` and 2 `at` + 1.
    const auto sum = [](int at, int i) { return 100.0f * (4 * at + 1) + 2.0f * i; };
    std::vector<float> summed, gathered, scattered, used;
    for (int i = 0; i < 8; ++i) {
      summed.push_back(sum(z, i));
      used.push_back(sum(z, i) + 100.0f * rank + i);
      // Both members of the scatter hold equal data, so each repetition adds a member's half twice.
      scattered.push_back(2 * kRepetitions * sum(z, i));
    }
    for (int i = 0; i < 16; ++i) gathered.push_back(sum(i / 8, i % 8));
    EXPECT_EQ(Content(outcome, program, rank, 1), summed);
    EXPECT_EQ(Content(outcome, program, rank, 2), gathered);
    EXPECT_EQ(Content(outcome, program, rank, 3), scattered);
    EXPECT_EQ(Content(outcome, program, rank, 4), used);
    EXPECT_EQ(Content(outcome, program, rank, 5), scattered);
    // The rings have two members. The all-reduce sends two halves of a buffer of 32 bytes, the all-gather sends 32
    // bytes, and the reduce-scatter sends half of 64 bytes.
    EXPECT_EQ(outcome.messages[rank], kRepetitions * (2 + 1 + 1));
    EXPECT_EQ(outcome.bytes[rank], kRepetitions * (32 + 32 + 32));
    // The streams are compute and three communicators. Every step is an event.
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

TEST(CollectiveStepTest, StepsAndActionsOfOneCommunicatorShareItsStream) {
  // The action's all-reduce has the same (group, purpose) as the step's, so they match in list order.
  Program program = Parse<Program>(kChain);
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
  // The next repetition overwrites what the action sums.
  Dependency& next = *t.mutable_body(0)->add_deps();
  next.set_action(3);
  next.set_distance(1);
  const Outcome outcome = RunSteps(program, 2);
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(outcome.statuses[rank].ok()) << outcome.statuses[rank];
    EXPECT_EQ(outcome.traces[rank].streams_size(), 4);
    // Each of the two members contributes (sum + its own value), and their own values add up to one more sum.
    EXPECT_EQ(Content(outcome, program, rank, 4)[1], 3 * (100.0f * (4 * (rank / 2) + 1) + 2));
  }
}

TEST(CollectiveStepTest, GathersAndScattersOfActions) {
  // An all-gather over blocks of 2 ranks within data = 4 (4 elements to 8), then a reduce-scatter over the two ranks
  // that are 2 apart (8 elements to 4).
  Program program = Parse<Program>(R"pb(
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
    // Ranks r and r + 2 add their values: 100 * (0 + 2) or 100 * (1 + 3). The first of them gets the first half.
    for (int i = 0; i < 4; ++i) EXPECT_EQ(Content(outcome, program, rank, 2)[i], 200.0f + 200 * block + 2 * i);
  }
}

TEST(CollectiveStepTest, SizesThatDoNotMatchAreRefused) {
  Program program = Parse<Program>(kChain);
  program.mutable_segments(0)->mutable_values(2)->set_shape(0, 12);
  const Outcome outcome = RunSteps(program, 1);
  EXPECT_THAT(std::string(outcome.statuses[0].message()),
              HasSubstr("rank 0: action 1 'chain': all-gather over 2 members from 8 to 12 elements"));
}

}  // namespace
}  // namespace weft::exec
