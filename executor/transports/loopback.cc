#include "executor/transports/loopback.h"

#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"

namespace weft::exec {

absl::Status LoopbackMover::UseDevice(ComputeDevice* device) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (const ComputeDevice* known = device_; known != nullptr && known != device) {
    return absl::InvalidArgumentError(absl::StrCat("loopback: the ranks share one device, but two are given: '",
                                                   known->name(), "' and '", device->name(), "'"));
  }
  device_ = device;
  most_enqueued_ += kInFlight;
  // Two events for each copy: one is recorded when its send is posted, the other after the copy.
  for (size_t i = 0; device->asynchronous() && i < 2 * kInFlight; ++i) {
    WEFT_ASSIGN_OR_RETURN(const int event, device->NewEvent(/*timed=*/false));
    free_.push_back(event);
  }
  return absl::OkStatus();
}

absl::StatusOr<int> LoopbackMover::TakeEvent() {
  int event = -1;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (enqueued_.size() < most_enqueued_) {
      // More sends are posted than there are events for them.
      if (free_.empty()) return device_.load()->NewEvent(/*timed=*/false);
      event = free_.back();
      free_.pop_back();
      return event;
    }
    event = enqueued_.front();
    enqueued_.pop_front();
  }
  WEFT_RETURN_IF_ERROR(device_.load()->Synchronize(event));
  return event;
}

absl::Status LoopbackMover::Prepare(Transfer* transfer, bool send) {
  if (transfer->stream < 0) return absl::OkStatus();
  if (device_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("loopback: a transfer on stream ", transfer->stream, " has no device"));
  }
  if (!send || !device_.load()->asynchronous()) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(const int ready, TakeEvent());
  transfer->parts_left = ready;
  return device_.load()->Record(ready, transfer->stream);
}

absl::Status LoopbackMover::Move(Transfer* send, Transfer* receive) {
  if ((send->stream < 0) != (receive->stream < 0)) {
    return absl::InternalError(absl::StrCat("channel ", send->channel, ": rank ", send->owner, " sends from ",
                                            send->stream < 0 ? "host" : "device", " memory, rank ", receive->owner,
                                            " receives in memory of the other kind"));
  }
  const size_t bytes = static_cast<size_t>(send->bytes);
  if (send->stream < 0) {
    if (bytes > 0) std::memcpy(receive->data, send->data, bytes);
    return absl::OkStatus();
  }
  if (!device_.load()->asynchronous()) {
    return bytes == 0 ? absl::OkStatus()
                      : device_.load()->Copy(receive->stream, receive->data, send->data, send->bytes);
  }
  const int ready = static_cast<int>(send->parts_left);
  WEFT_ASSIGN_OR_RETURN(const int copied, TakeEvent());
  WEFT_RETURN_IF_ERROR(device_.load()->Wait(receive->stream, ready));
  if (bytes > 0) WEFT_RETURN_IF_ERROR(device_.load()->Copy(receive->stream, receive->data, send->data, send->bytes));
  WEFT_RETURN_IF_ERROR(device_.load()->Record(copied, receive->stream));
  WEFT_RETURN_IF_ERROR(device_.load()->Wait(send->stream, copied));
  std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(ready);
  enqueued_.push_back(copied);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::unique_ptr<Endpoint>>> OpenLoopback(int ranks) {
  if (ranks < 1) return absl::InvalidArgumentError(absl::StrCat("loopback: ", ranks, " ranks"));
  return ThreadEndpoints(ranks, std::make_shared<LoopbackMover>());
}

}  // namespace weft::exec
