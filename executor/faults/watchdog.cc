#include "executor/faults/watchdog.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/faults/fault_report.h"

namespace weft::exec {
namespace {

int64_t Threefold(int64_t nanoseconds) { return 3 * std::min(nanoseconds, INT64_MAX / 3); }

}  // namespace

Watchdog::Watchdog(const Program& program, std::vector<WatchedRank> ranks, WatchdogOptions options)
    : program_(program),
      ranks_(std::move(ranks)),
      options_(std::move(options)),
      states_(ranks_.size()),
      thread_([this] { Run(); }) {}

Watchdog::~Watchdog() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::Returned(size_t index) {
  std::lock_guard<std::mutex> lock(mutex_);
  states_[index].returned = true;
}

// The lock is held while a rank is examined. A rank that returns waits for the lock, so two threads never write its
// report.
void Watchdog::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!changed_.wait_for(lock, options_.period, [this] { return stop_; })) {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (!states_[i].returned) CheckRank(i);
    }
  }
}

void Watchdog::CheckRank(size_t index) {
  const WatchedRank& watched = ranks_[index];
  State& state = states_[index];
  const int rank = watched.endpoint->rank();
  const int64_t now = MonotonicNanoseconds();
  const absl::Status reason = watched.endpoint->AbortReason();
  if (reason.ok()) {
    FlightRecorder::Entry entry;
    if (!watched.flight->Inside(&entry)) return Follow(index, now);
    const std::chrono::nanoseconds deadline = watched.deadlines->Of(entry.action);
    if (now - entry.begin_ns <= deadline.count()) return;
    watched.endpoint->Abort(absl::DeadlineExceededError(
        absl::StrCat("rank ", rank, ", ", DescribeEntry(program_, rank, entry), " has run for more than ",
                     std::chrono::duration<double>(deadline).count(), " s")));
    return;
  }
  if (state.failed_ns == 0) state.failed_ns = now;
  const int64_t passed = now - state.failed_ns;
  if (!state.reported && passed > options_.report_after.count()) {
    state.reported = true;
    if (options_.report) options_.report(rank, reason);
  }
  if (!state.given_up && passed > options_.give_up_after.count()) {
    state.given_up = true;
    if (options_.give_up) options_.give_up(rank, reason);
  }
}

void Watchdog::Follow(size_t index, int64_t now) {
  const WatchedRank& watched = ranks_[index];
  State& state = states_[index];
  const RunPhase phase = watched.deadlines->phase();
  const int64_t begun = watched.flight->begun();
  if (begun != state.begun) {
    state.begun = begun;
    state.begun_ns = now;
  }
  // A save may take as long as it needs, so its time does not count as waiting.
  if (phase == RunPhase::kEnding) state.begun_ns = now;
  if (options_.stop == nullptr || !options_.stop->load(std::memory_order_relaxed)) return;
  const int64_t over = watched.deadlines->repetitions_over();
  const int64_t longest = watched.deadlines->longest_repetition_ns();
  // The time of a device's first repetition is no guide for later ones, and the next repetition has not ended.
  if (phase == RunPhase::kStepping && longest == 0 && (over > 0 || watched.deadlines->in_first())) return;
  const int64_t of_first = std::max(options_.first_patience, watched.deadlines->LongestPredicted()).count();
  const int64_t patience = over == 0 ? of_first : std::max(options_.least_patience.count(), Threefold(longest));
  if (state.stop_ns == 0) state.stop_ns = now;
  watched.deadlines->Hurry(std::chrono::nanoseconds(patience));
  if (phase == RunPhase::kEnding) return;
  const std::string who = absl::StrCat("rank ", watched.endpoint->rank());
  if (phase == RunPhase::kStarting) {
    if (now - state.stop_ns < options_.least_patience.count()) return;
    watched.endpoint->Abort(absl::CancelledError(absl::StrCat(who, " was stopped by a signal before the first step")));
    return;
  }
  // The watchdog waits two seconds longer than a rank does in an action, because the rank's own error is more specific.
  const int64_t quiet = now - std::max(state.stop_ns, state.begun_ns);
  if (quiet < patience + std::chrono::nanoseconds(std::chrono::seconds(2)).count()) return;
  watched.endpoint->Abort(absl::DeadlineExceededError(absl::StrCat(
      who, " was asked to stop, but step ", watched.flight->LastStep(), " did not end in time; the step is lost")));
}

}  // namespace weft::exec
