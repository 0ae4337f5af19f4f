// Ends the process if it gets stuck while a failed run is taken down. Releasing the resources of a device waits for its
// work, so a kernel that never ends would block the process for ever, before the process has reported why the run
// failed.
#ifndef WEFT_EXECUTOR_FAULTS_END_GUARD_H_
#define WEFT_EXECUTOR_FAULTS_END_GUARD_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/status/status.h"

namespace weft::exec {

class EndGuard {
 public:
  // `give_up` has the meaning of FaultOptions::give_up; null = wait for ever. It is called if `patience` passes after
  // Failed.
  EndGuard(std::function<void(const absl::Status& reason, bool reports)> give_up, std::chrono::nanoseconds patience)
      : give_up_(std::move(give_up)), patience_(patience) {}
  EndGuard(const EndGuard&) = delete;
  // Called when everything has been taken down.
  ~EndGuard();

  // Called at most once, when the run has failed and all its ranks have returned. From here on, the resources that the
  // run used are released. `reports`: this process reports the reason. A process that does not report it has twice the
  // patience.
  void Failed(const absl::Status& reason, bool reports);

 private:
  const std::function<void(const absl::Status& reason, bool reports)> give_up_;
  const std::chrono::nanoseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool down_ = false;
  std::thread thread_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_FAULTS_END_GUARD_H_
