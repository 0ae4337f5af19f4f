// What watches over the ranks of this process in a run, and writes what they did when it fails: a flight recorder and
// deadlines per rank, one watchdog.
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
  // Null: only the timeout counts.
  const PredictedTimes* predicted = nullptr;
  // Deadlines::Deadlines.
  bool generous_first = false;
  // WatchdogOptions.stop.
  const std::atomic<bool>* stop = nullptr;
  // Written per rank when the run fails after the rank's first step has begun (FaultFileOfRank); empty = nothing is.
  std::string report_file = {};
  // The run has failed, and a rank of this process does not come back: the process cannot end in order. On another
  // thread; `told` if it is for this process to say why. Null: it goes on waiting.
  std::function<void(const absl::Status& reason, bool told)> give_up = {};
};

class FaultGuard {
 public:
  // All outlive it.
  FaultGuard(const Program& program, const std::vector<std::unique_ptr<Endpoint>>& endpoints, FaultOptions options);
  ~FaultGuard();

  // Of the i-th endpoint's rank.
  FlightRecorder* flight(size_t index) { return &ranks_[index].flight; }
  Deadlines* deadlines(size_t index) { return &ranks_[index].deadlines; }

  // A failure of the rank, before it is told to the others: where it does not say in which action, with the last that
  // the rank began. What another rank has failed for, and what is not about an action, stays as it is.
  absl::Status Located(size_t index, const absl::Status& status);
  // The rank is back. `first`: it was the first to fail.
  void Returned(size_t index, const absl::Status& status, bool first);
  // Ok, or why a report could not be written.
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
  // Last: it reads all of the above.
  std::unique_ptr<Watchdog> watchdog_;
};

// What a process ends with, by cause (docs/faults.md).
int ExitStatusOf(const absl::Status& failed_in_run);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_FAULTS_FAULT_GUARD_H_
