// A thread beside the ranks of a process. It ends a run whose kernel takes longer than its deadline, because that
// kernel's rank cannot notice it. It also makes sure that a run that has failed is over soon, whatever its ranks are
// stuck in.
//
// A run that is asked to stop does so after the step in progress. If no rank makes progress any more, that step never
// ends. So from then on, a rank waits for other ranks for at most three times its longest repetition so far, or for
// least_patience if that is longer. If no repetition has ended, the limit is first_patience or, if that is longer,
// Deadlines::kFactor times the predicted time of the rank's longest action. The deadline of the rank's action applies
// this limit and names the action (Deadlines::Hurry).
//
// The beginning of a later step on a rank does not show that an earlier step has ended: in a pipeline that is never
// drained, forwards are steps ahead of backwards, and a device has steps enqueued before it ends any. The watchdog
// itself ends waits outside of actions and before the first step. On a device the first repetition does not count, and
// ranks keep their own deadlines until the second has ended.
#ifndef WEFT_EXECUTOR_FAULTS_WATCHDOG_H_
#define WEFT_EXECUTOR_FAULTS_WATCHDOG_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "executor/interface/transport.h"
#include "executor/interpreter/deadlines.h"
#include "executor/interpreter/flight_recorder.h"
#include "proto/program.pb.h"

namespace weft::exec {

struct WatchedRank {
  Endpoint* endpoint = nullptr;
  const FlightRecorder* flight = nullptr;
  Deadlines* deadlines = nullptr;
};

struct WatchdogOptions {
  std::chrono::nanoseconds period = std::chrono::milliseconds(100);
  // After a failure, the watchdog first reports a rank that has not returned, and then gives it up.
  std::chrono::nanoseconds report_after = std::chrono::seconds(1);
  std::chrono::nanoseconds give_up_after = std::chrono::seconds(5);
  // Becomes true when the run is asked to stop; null = it is never asked.
  const std::atomic<bool>* stop = nullptr;
  std::chrono::nanoseconds least_patience = std::chrono::seconds(5);
  // A first forward on a CPU takes a while, and the progress of ranks in other processes is not visible.
  std::chrono::nanoseconds first_patience = std::chrono::seconds(60);
  // `report` and `give_up` are each called at most once per rank, on the watchdog's thread, while the rank's own thread
  // is stuck.
  std::function<void(int rank, const absl::Status& reason)> report;
  // Called when the process cannot end in order any more. Null: no rank is given up.
  std::function<void(int rank, const absl::Status& reason)> give_up;
};

class Watchdog {
 public:
  // Everything that is watched must outlive the watchdog.
  Watchdog(const Program& program, std::vector<WatchedRank> ranks, WatchdogOptions options);
  ~Watchdog();

  // Called when the rank at `index` in `ranks` has returned, with or without an error.
  void Returned(size_t index);

 private:
  struct State {
    bool returned = false;
    bool reported = false;
    bool given_up = false;
    // When the watchdog first saw the failure; 0 = not yet.
    int64_t failed_ns = 0;
    // Number of actions that the rank has begun, and when the watchdog first saw that number.
    int64_t begun = -1, begun_ns = 0;
    // When the watchdog first saw that the run was asked to stop; 0 = not yet.
    int64_t stop_ns = 0;
  };

  void Run();
  void CheckRank(size_t index);
  // Keeps track of what the rank does, and handles a stop.
  void Follow(size_t index, int64_t now);

  const Program& program_;
  const std::vector<WatchedRank> ranks_;
  const WatchdogOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::vector<State> states_;
  std::thread thread_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_FAULTS_WATCHDOG_H_
