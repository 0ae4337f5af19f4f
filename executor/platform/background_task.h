// One task that runs beside other work: for example, a copy to a device while the caller prepares the next data.
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
  // Waits for the work that has been started. What the work uses must outlive this.
  ~BackgroundTask() {
    if (thread_.joinable()) thread_.join();
  }

  // Waits for the previous work. If that failed, returns its error and does not run `work`.
  absl::Status Start(std::function<absl::Status()> work) {
    if (absl::Status before = Await(); !before.ok()) return before;
    thread_ = std::thread([this, work = std::move(work)] { status_ = work(); });
    return absl::OkStatus();
  }

  // Waits until no work is running. Returns the status of the last work; the result stays the same until the next
  // Start.
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
