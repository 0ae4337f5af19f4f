#include "executor/interpreter/control.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

constexpr int kBarrierChannel = kProgramChannels;
constexpr int kVoteChannel = kProgramChannels + 1;
constexpr int kDataChannel = kProgramChannels + 2;

void Prepare(Transfer& transfer, uint8_t* byte, int peer, int channel) {
  transfer.data = byte;
  transfer.bytes = 1;
  transfer.peer = peer;
  transfer.channel = channel;
}

bool AllDone(const Transfer* transfers, int count) {
  for (int i = 0; i < count; ++i) {
    if (!transfers[i].done.load(std::memory_order_acquire)) return false;
  }
  return true;
}

// Waits for `count` posted transfers. The caller frees their memory afterwards. If the wait fails, aborts the job, so
// that no partner and no MPI receive touches the memory any more. After a timeout, `late(transfer)` returns the error's
// message for a transfer that is not done.
template <typename Late>
absl::Status WaitForAll(Endpoint& endpoint, const Transfer* transfers, int count, int64_t deadline_ns,
                        const Late& late) {
  while (!AllDone(transfers, count)) {
    absl::Status status = endpoint.WaitForProgress(std::chrono::milliseconds(200)).status();
    Endpoint::LastNote note;
    if (status.ok()) status = endpoint.CheckPeers(&note);
    if (status.ok() && MonotonicNanoseconds() > deadline_ns) {
      for (int i = 0; i < count && status.ok(); ++i) {
        if (!transfers[i].done.load(std::memory_order_acquire))
          status = absl::DeadlineExceededError(late(transfers[i]));
      }
    }
    if (status.ok()) continue;
    endpoint.Abort(status);
    return status;
  }
  return absl::OkStatus();
}

// Aborts the job if a transfer cannot be posted, because others of the same call may have been posted already.
absl::Status PostOrAbort(Endpoint& endpoint, Transfer* transfer, bool send) {
  const absl::Status status = send ? endpoint.PostSend(transfer) : endpoint.PostRecv(transfer);
  if (!status.ok()) endpoint.Abort(status);
  return status;
}

std::string Seconds(std::chrono::nanoseconds timeout) {
  return absl::StrCat(std::chrono::duration<double>(timeout).count(), " s");
}

}  // namespace

absl::Status Barrier(Endpoint& endpoint, std::chrono::nanoseconds timeout) {
  const int others = endpoint.size() - 1;
  if (others == 0) return absl::OkStatus();
  const bool root = endpoint.rank() == 0;
  const int count = root ? others : 1;
  auto transfers = std::make_unique<Transfer[]>(count);
  std::vector<uint8_t> bytes(count);
  const int64_t deadline = MonotonicNanoseconds() + timeout.count();
  // All ranks report to rank 0, then rank 0 releases them. Messages of a later barrier cannot overtake these, because
  // channels keep their order.
  for (int phase = 0; phase < 2; ++phase) {
    for (int i = 0; i < count; ++i) {
      Prepare(transfers[i], &bytes[i], root ? i + 1 : 0, kBarrierChannel);
      const bool send = root == (phase == 1);
      WEFT_RETURN_IF_ERROR(PostOrAbort(endpoint, &transfers[i], send));
    }
    WEFT_RETURN_IF_ERROR(WaitForAll(endpoint, transfers.get(), count, deadline, [&](const Transfer& missing) {
      return absl::StrCat("rank ", endpoint.rank(), ": waited for rank ", missing.peer, " at a barrier for ",
                          Seconds(timeout));
    }));
  }
  return absl::OkStatus();
}

namespace {

absl::Status MoveNow(Endpoint& endpoint, int peer, void* data, int64_t bytes, bool send,
                     std::chrono::nanoseconds timeout) {
  Transfer transfer;
  transfer.data = data;
  transfer.bytes = bytes;
  transfer.peer = peer;
  transfer.channel = kDataChannel;
  WEFT_RETURN_IF_ERROR(PostOrAbort(endpoint, &transfer, send));
  return WaitForAll(endpoint, &transfer, 1, MonotonicNanoseconds() + timeout.count(), [&](const Transfer&) {
    return absl::StrCat("rank ", endpoint.rank(), ": waited for rank ", peer, " for ", Seconds(timeout));
  });
}

}  // namespace

absl::Status SendNow(Endpoint& endpoint, int peer, const void* data, int64_t bytes, std::chrono::nanoseconds timeout) {
  return MoveNow(endpoint, peer, const_cast<void*>(data), bytes, /*send=*/true, timeout);
}

absl::Status RecvNow(Endpoint& endpoint, int peer, void* data, int64_t bytes, std::chrono::nanoseconds timeout) {
  return MoveNow(endpoint, peer, data, bytes, /*send=*/false, timeout);
}

absl::StatusOr<std::vector<std::string>> GatherBytes(Endpoint& endpoint, const std::string& mine,
                                                     std::chrono::nanoseconds timeout) {
  std::vector<std::string> all;
  int64_t size = static_cast<int64_t>(mine.size());
  if (endpoint.rank() != 0) {
    WEFT_RETURN_IF_ERROR(SendNow(endpoint, 0, &size, sizeof(size), timeout));
    WEFT_RETURN_IF_ERROR(SendNow(endpoint, 0, mine.data(), size, timeout));
    return all;
  }
  all.push_back(mine);
  for (int rank = 1; rank < endpoint.size(); ++rank) {
    WEFT_RETURN_IF_ERROR(RecvNow(endpoint, rank, &size, sizeof(size), timeout));
    std::string& bytes = all.emplace_back(size, '\0');
    WEFT_RETURN_IF_ERROR(RecvNow(endpoint, rank, bytes.data(), size, timeout));
  }
  return all;
}

StopVote::StopVote(Endpoint& endpoint, const std::atomic<bool>* asked) : endpoint_(endpoint), asked_(asked) {
  const int slots = endpoint.rank() == 0 ? endpoint.size() - 1 : 2;
  transfers_ = std::make_unique<Transfer[]>(slots + 1);
  bytes_ = std::make_unique<uint8_t[]>(slots + 1);
}

absl::Status StopVote::Start() {
  stop_ = false;
  answering_ = false;
  active_ = true;
  if (endpoint_.rank() == 0) {
    count_ = endpoint_.size() - 1;
    for (int i = 0; i < count_; ++i) {
      Prepare(transfers_[i], &bytes_[i], i + 1, kVoteChannel);
      WEFT_RETURN_IF_ERROR(endpoint_.PostRecv(&transfers_[i]));
    }
    return absl::OkStatus();
  }
  count_ = 2;
  bytes_[0] = Asked() ? 1 : 0;
  Prepare(transfers_[0], &bytes_[0], 0, kVoteChannel);
  Prepare(transfers_[1], &bytes_[1], 0, kVoteChannel);
  WEFT_RETURN_IF_ERROR(endpoint_.PostSend(&transfers_[0]));
  return endpoint_.PostRecv(&transfers_[1]);
}

int StopVote::waiting_for() const {
  if (!active_) return -1;
  for (int i = 0; i < count_; ++i) {
    if (!AllDone(&transfers_[i], 1)) return endpoint_.rank() == 0 ? i + 1 : 0;
  }
  return -1;
}

absl::StatusOr<bool> StopVote::Advance() {
  if (!active_) return true;
  if (!AllDone(transfers_.get(), count_)) return false;
  if (endpoint_.rank() != 0) {
    stop_ = bytes_[1] != 0;
  } else if (!answering_) {
    stop_ = Asked();
    for (int i = 0; i < count_; ++i) stop_ = stop_ || bytes_[i] != 0;
    answering_ = true;
    for (int i = 0; i < count_; ++i) {
      bytes_[i] = stop_ ? 1 : 0;
      WEFT_RETURN_IF_ERROR(endpoint_.PostSend(&transfers_[i]));
    }
    if (!AllDone(transfers_.get(), count_)) return false;
  }
  active_ = false;
  return true;
}

}  // namespace weft::exec
