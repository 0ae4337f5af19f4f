// A thread beside the ranks of a process. It ends a run whose kernel takes longer than its deadline (its own rank is in
// no state to notice), and sees to it that a run that has failed is over soon, whatever its ranks are stuck in.
//
// A run that is asked to stop does so after the step in progress. One in which nothing moves any more has no end of it:
// a rank that waits for others gives up after three times its longest repetition so far, at least least_patience; where
// none has ended, after first_patience or, if that is longer, Deadlines::kFactor times what is predicted of its longest
// action. Its action's deadline says which (Deadlines::Hurry). That a rank has begun a later step says nothing: in a
// pipeline that is never drained forwards are steps ahead of backwards, and a device has steps enqueued before it ends
// any. What waits outside of actions, and before the first step, the watchdog ends.
// On a device the first repetition is left out, and until the second has ended ranks keep their own deadlines.
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
  // After a failure: a rank that has not returned is reported by the watchdog, and then given up.
  std::chrono::nanoseconds report_after = std::chrono::seconds(1);
  std::chrono::nanoseconds give_up_after = std::chrono::seconds(5);
  // Becomes true when the run is asked to stop; null: it never is.
  const std::atomic<bool>* stop = nullptr;
  std::chrono::nanoseconds least_patience = std::chrono::seconds(5);
  // A first forward on a CPU takes a while, and what ranks of other processes do is not seen.
  std::chrono::nanoseconds first_patience = std::chrono::seconds(60);
  // Each called at most once per rank, on the watchdog's thread, while the rank's own is stuck.
  std::function<void(int rank, const absl::Status& reason)> report;
  // The process cannot end in order any more. Null: nothing is given up.
  std::function<void(int rank, const absl::Status& reason)> give_up;
};

class Watchdog {
 public:
  // All that is watched outlives it.
  Watchdog(const Program& program, std::vector<WatchedRank> ranks, WatchdogOptions options);
  ~Watchdog();

  // The rank (by its place in `ranks`) has returned, well or not.
  void Returned(size_t index);

 private:
  struct State {
    bool returned = false;
    bool reported = false;
    bool given_up = false;
    // When the failure was seen, 0 = it was not.
    int64_t failed_ns = 0;
    // The last that the rank began: since when, as seen here.
    int64_t begun = -1, begun_ns = 0;
    // When the stop was seen, 0 = it was not.
    int64_t stop_ns = 0;
  };

  void Run();
  void Look(size_t index);
  // What the rank does is kept in mind, and a stop is seen to.
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
