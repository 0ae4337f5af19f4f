// How long each action of a rank may take before the run is given up.
#ifndef WEFT_EXECUTOR_INTERPRETER_DEADLINES_H_
#define WEFT_EXECUTOR_INTERPRETER_DEADLINES_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/platform/monotonic_clock.h"
#include "proto/program.pb.h"
#include "proto/trace.pb.h"

namespace weft::exec {

// Longest time of each action in a simulated trace of the program, from when it was ready to when it was finished,
// waits for its partners among it; nanoseconds, by (template, Action.id). InvalidArgument for a measured trace, whose
// stalls and first steps are no prediction, and, naming both, for a trace of another program.
class PredictedTimes {
 public:
  PredictedTimes() = default;
  static absl::StatusOr<PredictedTimes> Make(const Program& program, const Trace& trace);

  // 0 if it is not in the trace.
  int64_t Of(int template_index, int32_t action) const;
  // Equal digests, equal times; "nothing" if none is there.
  std::string Digest() const;
  // Of all actions.
  int64_t Longest() const { return longest_; }

 private:
  int64_t longest_ = 0;
  // By template: sorted (id, nanoseconds).
  std::vector<std::vector<std::pair<int32_t, int64_t>>> times_;
};

// Where a rank is in its run.
enum class RunPhase {
  kStarting,  // the ranks have met; no step has begun
  kStepping,
  kEnding,  // between and after steps: evaluation, checkpoints, what is written at the end
};

class Deadlines {
 public:
  // Of actions that take longer than predicted.
  static constexpr int64_t kFactor = 20;
  // Of the first repetition: connections are used, kernels loaded and memory touched for the first time.
  static constexpr int64_t kFirstFactor = 10;
  static constexpr std::chrono::seconds kWaitGrace{1};

  Deadlines() = default;
  // max(timeout, kFactor x predicted) by action; without a prediction the timeout. `generous`: kFirstFactor times that
  // in the first repetition.
  Deadlines(const Program& program, int rank, std::chrono::nanoseconds timeout, const PredictedTimes& predicted,
            bool generous);

  // By index in PreparedProgram.actions. Until RepetitionIsOver is called the first is under way.
  std::chrono::nanoseconds Of(int32_t action) const;
  // Of waiting for other ranks in the action: a little more, so that a rank that is stuck is named by its own process.
  std::chrono::nanoseconds OfWaitIn(int32_t action) const { return AtMostPatience(Of(action) + kWaitGrace); }
  // kFactor x predicted, of the action with the longest prediction; 0 without one.
  std::chrono::nanoseconds LongestPredicted() const { return std::chrono::nanoseconds(longest_predicted_ns_); }
  // Of what is no action.
  std::chrono::nanoseconds OfWaiting() const {
    return AtMostPatience(std::chrono::nanoseconds(timeout_ns_ * Now()) + kWaitGrace);
  }
  // All of the rank's actions of a repetition are over, of its first too. Whose repetitions overlap ends them later
  // than it begins the next.
  void RepetitionIsOver(int64_t now_ns) {
    const bool first = generous_.load(std::memory_order_relaxed);
    // A first one that may take many times as long says nothing of the others.
    if (!first) {
      const int64_t longest = longest_repetition_ns_.load(std::memory_order_relaxed);
      longest_repetition_ns_.store(std::max({int64_t{1}, longest, now_ns - since_ns_}), std::memory_order_relaxed);
    }
    since_ns_ = now_ns;
    generous_.store(false, std::memory_order_relaxed);
    repetitions_over_.fetch_add(1, std::memory_order_release);
  }
  // Of a rank with a generous first repetition: it is not over.
  bool in_first() const { return generous_.load(std::memory_order_relaxed); }
  int64_t repetitions_over() const { return repetitions_over_.load(std::memory_order_acquire); }
  // 0: none is over that says how long the others take.
  int64_t longest_repetition_ns() const { return longest_repetition_ns_.load(std::memory_order_relaxed); }

  // The run was asked to stop: it waits for others no longer than this for the end of the step.
  void Hurry(std::chrono::nanoseconds patience) {
    patience_ns_.store(std::clamp<int64_t>(patience.count(), 1, INT64_MAX - 1), std::memory_order_relaxed);
  }
  bool hurried() const { return patience_ns_.load(std::memory_order_relaxed) != INT64_MAX; }

  void Enter(RunPhase phase) {
    // What comes between steps is none of their time.
    if (phase == RunPhase::kStepping) since_ns_ = MonotonicNanoseconds();
    phase_.store(phase, std::memory_order_release);
  }
  RunPhase phase() const { return phase_.load(std::memory_order_acquire); }

 private:
  std::chrono::nanoseconds AtMostPatience(std::chrono::nanoseconds wait) const {
    return std::min(wait, std::chrono::nanoseconds(patience_ns_.load(std::memory_order_relaxed)));
  }
  int64_t Now() const { return generous_.load(std::memory_order_relaxed) ? kFirstFactor : 1; }

  int64_t timeout_ns_ = int64_t{300} * 1000 * 1000 * 1000;
  std::vector<int64_t> of_action_;
  int64_t longest_predicted_ns_ = 0;
  // Since when the repetition that ends next has been under way, by the rank's own thread.
  int64_t since_ns_ = 0;
  // The watchdog reads these.
  std::atomic<bool> generous_{false};
  std::atomic<int64_t> repetitions_over_{0};
  std::atomic<int64_t> longest_repetition_ns_{0};
  std::atomic<int64_t> patience_ns_{INT64_MAX};
  std::atomic<RunPhase> phase_{RunPhase::kStarting};
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERPRETER_DEADLINES_H_
