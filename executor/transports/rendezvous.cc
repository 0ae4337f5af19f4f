#include "executor/transports/rendezvous.h"

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weft::exec {
namespace {

// Posted transfers of one side of a channel that wait for the other side.
struct Queue {
  Transfer* head = nullptr;
  Transfer* tail = nullptr;

  void Push(Transfer* transfer) {
    transfer->next = nullptr;
    (tail == nullptr ? head : tail->next) = transfer;
    tail = transfer;
  }
  Transfer* Pop() {
    Transfer* transfer = head;
    if (transfer != nullptr && (head = transfer->next) == nullptr) tail = nullptr;
    return transfer;
  }
};

struct Channel {
  Queue sends;
  Queue receives;
};

struct Waiter {
  std::condition_variable changed;
  // Completions and wakes of this rank so far.
  std::atomic<uint64_t> events{0};
};

// The state that the ranks share. Its one lock is held for the matching, not for the copies.
struct World {
  explicit World(int ranks) : waiters(ranks) {}

  std::mutex mutex;
  std::vector<Waiter> waiters;
  // Number of matched messages whose bytes are being moved, without the lock.
  int copies = 0;
  std::condition_variable copied;
  // Key: sender, receiver, channel.
  std::map<std::tuple<int, int, int>, Channel> channels;
  std::atomic<bool> aborted{false};
  // Written once, before `aborted` is set.
  absl::Status reason;
  int aborted_by = -1;
};

class ThreadEndpoint : public Endpoint {
 public:
  ThreadEndpoint(std::shared_ptr<World> world, std::shared_ptr<Mover> mover, int rank)
      : world_(std::move(world)), mover_(std::move(mover)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(world_->waiters.size()); }

  absl::Status UseDevice(ComputeDevice* device) override { return mover_->UseDevice(device); }
  int ranks_on_device() const override { return size(); }

  absl::Status PostSend(Transfer* transfer) override { return Post(transfer, /*send=*/true); }
  absl::Status PostRecv(Transfer* transfer) override { return Post(transfer, /*send=*/false); }

  absl::StatusOr<bool> Poll() override {
    if (world_->aborted.load(std::memory_order_acquire)) {
      std::unique_lock<std::mutex> lock(world_->mutex);
      return AfterCopies(lock);
    }
    const uint64_t events = world_->waiters[rank_].events.load(std::memory_order_acquire);
    return std::exchange(seen_, events) != events;
  }

  absl::StatusOr<bool> WaitForProgress(std::chrono::nanoseconds timeout) override {
    Waiter& waiter = world_->waiters[rank_];
    {
      std::unique_lock<std::mutex> lock(world_->mutex);
      waiter.changed.wait_for(lock, timeout, [&] {
        return waiter.events.load(std::memory_order_relaxed) != seen_ ||
               world_->aborted.load(std::memory_order_relaxed);
      });
    }
    return Poll();
  }

  void Wake() override {
    std::lock_guard<std::mutex> lock(world_->mutex);
    Signal(rank_);
  }

  bool Abort(const absl::Status& status) override {
    std::unique_lock<std::mutex> lock(world_->mutex);
    if (!world_->aborted.load(std::memory_order_relaxed)) {
      world_->reason = status;
      world_->aborted_by = rank_;
      world_->aborted.store(true, std::memory_order_release);
      for (Waiter& waiter : world_->waiters) waiter.changed.notify_all();
    }
    (void)AfterCopies(lock);
    return world_->aborted_by == rank_;
  }

  absl::Status AbortReason() override {
    // `reason` is not written any more once `aborted` is set.
    return world_->aborted.load(std::memory_order_acquire) ? world_->reason : absl::OkStatus();
  }

  void Note(int64_t, int32_t) override {}
  absl::Status CheckPeers(LastNote*) override { return absl::OkStatus(); }

 private:
  // Returns the reason of the abort once no thread moves bytes any more; the caller may then free its transfers. No
  // match is made after an abort, so this takes no longer than a copy.
  absl::Status AfterCopies(std::unique_lock<std::mutex>& lock) {
    world_->copied.wait(lock, [&] { return world_->copies == 0; });
    return world_->reason;
  }

  // Called with the lock held.
  void Signal(int rank) {
    world_->waiters[rank].events.fetch_add(1, std::memory_order_release);
    world_->waiters[rank].changed.notify_one();
  }

  absl::Status Post(Transfer* transfer, bool send) {
    if (transfer->peer < 0 || transfer->peer >= size() || transfer->bytes < 0) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", rank_, ": a transfer of ", transfer->bytes,
                                                     " bytes with rank ", transfer->peer, " of ", size()));
    }
    transfer->owner = rank_;
    transfer->done.store(false, std::memory_order_relaxed);
    if (absl::Status status = mover_->Prepare(transfer, send); !status.ok()) return status;
    Transfer* partner;
    {
      std::unique_lock<std::mutex> lock(world_->mutex);
      if (world_->aborted.load(std::memory_order_relaxed)) return AfterCopies(lock);
      Channel& channel = world_->channels[send ? std::tuple(rank_, transfer->peer, transfer->channel)
                                               : std::tuple(transfer->peer, rank_, transfer->channel)];
      partner = (send ? channel.receives : channel.sends).Pop();
      if (partner == nullptr) {
        (send ? channel.sends : channel.receives).Push(transfer);
        return absl::OkStatus();
      }
      if (partner->bytes != transfer->bytes) {
        const absl::Status mismatch = absl::InternalError(absl::StrCat(
            "channel ", transfer->channel, ": rank ", rank_, send ? " sends " : " expects ", transfer->bytes,
            " bytes, rank ", partner->owner, send ? " expects " : " sends ", partner->bytes));
        lock.unlock();
        Abort(mismatch);
        return mismatch;
      }
      ++world_->copies;
    }
    const int64_t start = MonotonicNanoseconds();
    const absl::Status moved = send ? mover_->Move(transfer, partner) : mover_->Move(partner, transfer);
    const int64_t end = MonotonicNanoseconds();
    const int partner_rank = partner->owner;
    for (Transfer* side : {transfer, partner}) {
      if (!moved.ok()) break;
      side->start_ns = start;
      side->end_ns = end;
      // From here on the owner may reuse the transfer.
      side->done.store(true, std::memory_order_release);
    }
    {
      std::lock_guard<std::mutex> lock(world_->mutex);
      if (--world_->copies == 0) world_->copied.notify_all();
      Signal(partner_rank);
      if (partner_rank != rank_) Signal(rank_);
    }
    if (!moved.ok()) Abort(moved);
    return moved;
  }

  std::shared_ptr<World> world_;
  std::shared_ptr<Mover> mover_;
  const int rank_;
  uint64_t seen_ = 0;
};

}  // namespace

absl::Status MemoryMover::UseDevice(ComputeDevice* device) {
  return device->asynchronous() ? absl::UnimplementedError("the transport moves memory of the host only")
                                : absl::OkStatus();
}

absl::Status MemoryMover::Move(Transfer* send, Transfer* receive) {
  if (send->bytes > 0) std::memcpy(receive->data, send->data, static_cast<size_t>(send->bytes));
  return absl::OkStatus();
}

std::vector<std::unique_ptr<Endpoint>> ThreadEndpoints(int ranks, std::shared_ptr<Mover> mover) {
  auto world = std::make_shared<World>(ranks);
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  for (int rank = 0; rank < ranks; ++rank) endpoints.push_back(std::make_unique<ThreadEndpoint>(world, mover, rank));
  return endpoints;
}

}  // namespace weft::exec
