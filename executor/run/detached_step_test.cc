// Tests detached collectives of segments: what runs meanwhile, and which steps wait for them.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "executor/testing/collective_run_testing.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::exec {
namespace {

// A flag that one rank raises and another waits for. Wait returns false if the flag is not raised within a time limit.
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

// Two ranks. The first action runs "make" and starts a detached reduce-scatter and a detached all-reduce of its result.
// The next action runs "free". The last action runs "wait"; if `waits`, it waits for the detached steps.
Program Overlap(bool waits) {
  Program program = Parse<Program>(R"pb(
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

TEST(DetachedStepTest, ComputeGoesOnWhileCollectivesWait) {
  const Program program = Overlap(/*waits=*/true);
  Flag free_ran, made;
  std::atomic<bool> too_early{false}, in_time{false};
  const Outcome outcome = RunSteps(program, 1, [&](int rank, const std::string& step) {
    if (rank == 0 && step == "free") free_ran.Raise();
    if (rank == 1 && step == "make") {
      // Both collectives of rank 0 are under way, and its next action runs nevertheless.
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

TEST(DetachedStepTest, PlainDependenciesDoNotWaitForDetachedSteps) {
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

}  // namespace
}  // namespace weft::exec
