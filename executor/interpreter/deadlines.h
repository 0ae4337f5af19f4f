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

// The longest time of each action in a simulated trace of the program, from ready to finished, including the waits for
// its partners. In nanoseconds, by (template, Action.id). InvalidArgument for a measured trace, whose stalls and first
// steps are no prediction. InvalidArgument, naming both programs, for a trace of another program.
class PredictedTimes {
 public:
  PredictedTimes() = default;
  static absl::StatusOr<PredictedTimes> Make(const Program& program, const Trace& trace);

  // The longest time of the action; 0 if the trace does not have it.
  int64_t Of(int template_index, int32_t action) const;
  // Equal digests mean equal times; "none" if there are no times.
  std::string Digest() const;
  // The longest time of all actions.
  int64_t Longest() const { return longest_; }

 private:
  int64_t longest_ = 0;
  // By template: pairs (Action.id, nanoseconds), sorted by id.
  std::vector<std::vector<std::pair<int32_t, int64_t>>> times_;
};

// Where a rank is in its run.
enum class RunPhase {
  kStarting,  // the ranks have met; no step has begun
  kStepping,
  kEnding,  // between and after steps: evaluation, checkpoints, final output
};

class Deadlines {
 public:
  // How many times its predicted time an action may take.
  static constexpr int64_t kFactor = 20;
  // Further factor for a generous first repetition, which uses connections, loads kernels and touches memory for the
  // first time.
  static constexpr int64_t kFirstFactor = 10;
  static constexpr std::chrono::seconds kWaitGrace{1};

  Deadlines() = default;
  // The deadline of an action is max(timeout, kFactor x predicted), or the timeout if there is no prediction.
  // `generous`: the deadlines of the first repetition are kFirstFactor times as long.
  Deadlines(const Program& program, int rank, std::chrono::nanoseconds timeout, const PredictedTimes& predicted,
            bool generous);

  // Returns the deadline of an action, by its index in PreparedProgram.actions. If deadlines are generous, they are
  // kFirstFactor times as long until RepetitionIsOver is called.
  std::chrono::nanoseconds Of(int32_t action) const;
  // The deadline for waiting for other ranks in the action. It is a little longer, so that a stuck rank's own process
  // names it first.
  std::chrono::nanoseconds WaitDeadlineIn(int32_t action) const { return AtMostPatience(Of(action) + kWaitGrace); }
  // kFactor x predicted for the action with the longest prediction; 0 without predictions.
  std::chrono::nanoseconds LongestPredicted() const { return std::chrono::nanoseconds(longest_predicted_ns_); }
  // The deadline for waiting outside of actions.
  std::chrono::nanoseconds WaitDeadline() const {
    return AtMostPatience(std::chrono::nanoseconds(timeout_ns_ * Now()) + kWaitGrace);
  }
  // Called when all of the rank's actions of a repetition are over, after every repetition including the first. Where
  // repetitions overlap, one ends after the next has begun.
  void RepetitionIsOver(int64_t now_ns) {
    const bool first = generous_.load(std::memory_order_relaxed);
    // A generous first repetition may take many times as long as the others, so its time does not count here.
    if (!first) {
      const int64_t longest = longest_repetition_ns_.load(std::memory_order_relaxed);
      longest_repetition_ns_.store(std::max({int64_t{1}, longest, now_ns - since_ns_}), std::memory_order_relaxed);
    }
    since_ns_ = now_ns;
    generous_.store(false, std::memory_order_relaxed);
    repetitions_over_.fetch_add(1, std::memory_order_release);
  }
  // True until the first repetition is over, if the first repetition is generous; else always false.
  bool in_first() const { return generous_.load(std::memory_order_relaxed); }
  int64_t repetitions_over() const { return repetitions_over_.load(std::memory_order_acquire); }
  // The duration of the longest repetition so far; 0 = none is over. A generous first repetition does not count.
  int64_t longest_repetition_ns() const { return longest_repetition_ns_.load(std::memory_order_relaxed); }

  // Called when the run was asked to stop: from now on this rank waits no longer than `patience` for other ranks to end
  // the step.
  void Hurry(std::chrono::nanoseconds patience) {
    patience_ns_.store(std::clamp<int64_t>(patience.count(), 1, INT64_MAX - 1), std::memory_order_relaxed);
  }
  bool hurried() const { return patience_ns_.load(std::memory_order_relaxed) != INT64_MAX; }

  void Enter(RunPhase phase) {
    // Time between steps does not count for any repetition.
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
  // When the repetition that ends next began. Only the rank's own thread uses it.
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
