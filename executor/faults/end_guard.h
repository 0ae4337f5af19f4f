// Whatever is stuck in taking a failed run down, the process ends: a device is waited for when what runs on it is given
// back, and one whose kernel never ends would be waited for for ever, before anybody is told why.
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
  // `give_up` as FaultOptions.give_up; null: it is waited for for ever.
  EndGuard(std::function<void(const absl::Status& reason, bool told)> give_up, std::chrono::nanoseconds patience)
      : give_up_(std::move(give_up)), patience_(patience) {}
  EndGuard(const EndGuard&) = delete;
  // All has been taken down.
  ~EndGuard();

  // The run has failed, all its ranks are back; what it ran on is taken down from here on. `told`: this process is to
  // say why; one that is not has twice the patience. At most once.
  void Failed(const absl::Status& reason, bool told);

 private:
  const std::function<void(const absl::Status& reason, bool told)> give_up_;
  const std::chrono::nanoseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool down_ = false;
  std::thread thread_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_FAULTS_END_GUARD_H_
