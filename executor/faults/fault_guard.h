// Watches over the ranks of this process during a run, and writes what they did when the run fails. It has a flight
// recorder and deadlines per rank, and one watchdog.
#ifndef WEFT_EXECUTOR_FAULTS_FAULT_GUARD_H_
#define WEFT_EXECUTOR_FAULTS_FAULT_GUARD_H_

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "executor/faults/watchdog.h"
#include "executor/interface/transport.h"
#include "executor/interpreter/deadlines.h"
#include "executor/interpreter/flight_recorder.h"
#include "proto/program.pb.h"

namespace weft::exec {

struct FaultOptions {
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
  // Predicted times of the program, which may extend the deadlines of actions; null = the timeout is the deadline.
  const PredictedTimes* predicted = nullptr;
  // Passed to Deadlines as `generous`.
  bool generous_first = false;
  // Passed to the watchdog as WatchdogOptions::stop.
  const std::atomic<bool>* stop = nullptr;
  // The report, written per rank (FaultFileOfRank) when the run fails after the rank's first step has begun; empty =
  // none.
  std::string report_file = {};
  // Called on another thread if the run has failed and a rank of this process does not return, so that the process
  // cannot end in order. `reports` is true if this process should report the reason. Null: the process keeps waiting.
  std::function<void(const absl::Status& reason, bool reports)> give_up = {};
};

class FaultGuard {
 public:
  // `program` and `endpoints` must outlive the guard.
  FaultGuard(const Program& program, const std::vector<std::unique_ptr<Endpoint>>& endpoints, FaultOptions options);
  ~FaultGuard();

  // The flight recorder and the deadlines of the i-th endpoint's rank.
  FlightRecorder* flight(size_t index) { return &ranks_[index].flight; }
  Deadlines* deadlines(size_t index) { return &ranks_[index].deadlines; }

  // Completes a failure of the rank before it is passed on to the others: if the error names no action, adds the last
  // action that the rank began. A failure of another rank, and a failure that is not about an action, stays as it is.
  absl::Status Located(size_t index, const absl::Status& status);
  // Called when the rank has returned. `first`: it was the first to fail.
  void Returned(size_t index, const absl::Status& status, bool first);
  // Ok, or the reason why a report could not be written.
  absl::Status report_status() const;

 private:
  struct Rank {
    Rank(const Program& program, int rank, const FaultOptions& options);

    Endpoint* endpoint = nullptr;
    FlightRecorder flight;
    Deadlines deadlines;
    // Guarded by mutex_.
    bool written = false;
  };

  void Write(int rank, const absl::Status& reason, bool first);

  const Program& program_;
  const FaultOptions options_;
  std::deque<Rank> ranks_;
  mutable std::mutex mutex_;
  absl::Status report_status_;
  // The last member, because it reads all of the above.
  std::unique_ptr<Watchdog> watchdog_;
};

// The exit status of a process, by cause (docs/faults.md).
int ExitStatusOf(const absl::Status& failed_in_run);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_FAULTS_FAULT_GUARD_H_
