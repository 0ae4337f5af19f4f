// Ranks are threads of one process that share one device (UseDevice: the same for all). A message is matched on the
// host; the rank that comes later enqueues the copy on the receiver's stream, behind what either side had enqueued when
// it posted, and makes the sender's stream wait for it. So a stream never waits for a partner that is not there, and no
// order in which the device picks its streams can deadlock, however many program streams share one of its own.
#ifndef WEFT_EXECUTOR_TRANSPORTS_LOOPBACK_H_
#define WEFT_EXECUTOR_TRANSPORTS_LOOPBACK_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <vector>

#include "executor/transports/rendezvous.h"

namespace weft::exec {

class LoopbackMover : public Mover {
 public:
  // Messages of each rank whose copies may be enqueued and not over: whoever would enqueue one more waits for the
  // oldest. So the queues of launches do not fill up.
  static constexpr size_t kInFlight = 64;

  absl::Status UseDevice(ComputeDevice* device) override;
  absl::Status Prepare(Transfer* transfer, bool send) override;
  absl::Status Move(Transfer* send, Transfer* receive) override;

 private:
  // An event that nobody has, at the latest when the oldest copy is over.
  absl::StatusOr<int> TakeEvent();

  std::mutex mutex_;
  // Set by the first rank that has it; read by others that are ahead.
  std::atomic<ComputeDevice*> device_{nullptr};
  std::vector<int> free_;
  // Events of copies that were enqueued, oldest first.
  std::deque<int> enqueued_;
  size_t most_enqueued_ = 0;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_LOOPBACK_H_
