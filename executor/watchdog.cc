#include "executor/watchdog.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/fault_report.h"

namespace weft {

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

// The lock is held while a rank is looked at: a rank that returns waits until it has been, so it is not written about
// by two threads.
void Watchdog::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!changed_.wait_for(lock, options_.period, [this] { return stop_; })) {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (!states_[i].returned) Look(i);
    }
  }
}

void Watchdog::Look(size_t index) {
  const WatchedRank& watched = ranks_[index];
  State& state = states_[index];
  const int rank = watched.endpoint->rank();
  const int64_t now = MonotonicNanoseconds();
  const absl::Status reason = watched.endpoint->AbortReason();
  if (reason.ok()) {
    FlightRecorder::Entry entry;
    if (!watched.flight->Inside(&entry)) return;
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

}  // namespace weft
