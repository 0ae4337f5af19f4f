// One thing that is done while something else goes on: a copy to a device while the next content is made.
#ifndef WEFT_EXECUTOR_PLATFORM_BACKGROUND_TASK_H_
#define WEFT_EXECUTOR_PLATFORM_BACKGROUND_TASK_H_

#include <functional>
#include <thread>
#include <utility>

#include "absl/status/status.h"

namespace weft::exec {

class BackgroundTask {
 public:
  BackgroundTask() = default;
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;
  // What has been started ends first: what it uses outlives this.
  ~BackgroundTask() {
    if (thread_.joinable()) thread_.join();
  }

  // Waits for the one before. If that has failed, its error; `work` is not done then.
  absl::Status Start(std::function<absl::Status()> work) {
    if (absl::Status before = Await(); !before.ok()) return before;
    thread_ = std::thread([this, work = std::move(work)] { status_ = work(); });
    return absl::OkStatus();
  }

  // Until nothing is going on: how it ended, each time the same until the next Start.
  absl::Status Await() {
    if (thread_.joinable()) thread_.join();
    return status_;
  }

 private:
  std::thread thread_;
  absl::Status status_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_PLATFORM_BACKGROUND_TASK_H_
