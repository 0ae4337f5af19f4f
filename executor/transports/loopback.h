// The transport between ranks that are threads of one process and share one device (UseDevice: the same for all). A
// message is matched on the host. The rank that comes later enqueues the copy on the receiver's stream, after
// everything that either side had enqueued when it posted, and makes the sender's stream wait for the copy. A stream
// therefore never waits for a partner that is not there. No order in which the device picks its streams can deadlock,
// however many program streams share a device stream.
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
  // Per rank, the number of messages whose copies may be enqueued and not over. The ranks share the total. A rank that
  // would enqueue one more waits for the oldest, so the launch queues do not fill up.
  static constexpr size_t kInFlight = 64;

  absl::Status UseDevice(ComputeDevice* device) override;
  absl::Status Prepare(Transfer* transfer, bool send) override;
  absl::Status Move(Transfer* send, Transfer* receive) override;

 private:
  // Returns an unused event. If the maximum number of copies is enqueued, waits for the oldest and returns its event.
  absl::StatusOr<int> TakeEvent();

  std::mutex mutex_;
  // UseDevice sets it on every rank, to the same device. It is atomic, because ranks that are ahead read it meanwhile.
  std::atomic<ComputeDevice*> device_{nullptr};
  std::vector<int> free_;
  // Events of the copies that were enqueued, oldest first.
  std::deque<int> enqueued_;
  size_t most_enqueued_ = 0;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_LOOPBACK_H_
