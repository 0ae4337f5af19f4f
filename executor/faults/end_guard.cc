#include "executor/faults/end_guard.h"

namespace weft::exec {

EndGuard::~EndGuard() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    down_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void EndGuard::Failed(const absl::Status& reason, bool reports) {
  if (!give_up_ || thread_.joinable()) return;
  thread_ = std::thread([this, reason, reports] {
    std::unique_lock<std::mutex> lock(mutex_);
    // A process that does not report the reason waits longer, so that the process that reports it can do so first:
    // launchers end all processes when one has ended.
    if (changed_.wait_for(lock, reports ? patience_ : 2 * patience_, [this] { return down_; })) return;
    lock.unlock();
    give_up_(reason, reports);
  });
}

}  // namespace weft::exec
