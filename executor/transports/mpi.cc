// The transport between ranks that are processes under an MPI launcher.
//
// A table in memory shared by the processes of a node carries what messages cannot: that a rank has failed, and what a
// rank that died was doing. Ranks on other nodes do not see it. For them, the launcher ends the job when the first
// process of the failed node exits.
#include "executor/transports/mpi.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/interface/transport.h"
#include "executor/transports/mpi_table.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

// MPI counts are ints, so a longer message travels in parts of this size.
constexpr int64_t kPartBytes = int64_t{1} << 30;
constexpr int kMessageBytes = 1024;

// After an abort: how long the process that reports the reason waits for the others to write their reports, and how
// long they wait for it. The second time is longer than a watchdog gives a stuck rank (executor/faults/watchdog.h).
constexpr auto kWaitForOthers = std::chrono::milliseconds(2500);
constexpr auto kWaitForWinner = std::chrono::milliseconds(8000);

struct SharedSlot {
  std::atomic<int64_t> step;
  std::atomic<int32_t> action;
  int32_t world_rank;
  std::atomic<int64_t> process;
  // 1 + the number, on this node, of the rank whose abort won; 0 = none yet. Only the slot of the node's first process
  // uses it. It is set when that rank's message is whole, so a process that dies earlier holds up nobody.
  std::atomic<int32_t> aborted_by;
  int32_t abort_code;
  // After an abort: set when the process has nothing more to write.
  std::atomic<int32_t> left;
  char message[kMessageBytes];
};

class MpiEndpoint : public Endpoint {
 public:
  MpiEndpoint(const MpiTable& mpi, MpiDeviceMemory device_memory) : mpi_(mpi), device_memory_(device_memory) {}

  ~MpiEndpoint() override {
    // MPI is finalized only if the job ended in order. After a failure, MPI_Abort or the exit status informs the
    // launcher.
    if (mine_ == nullptr) return;
    if (Aborted()) {
      WaitForReport();
      return;
    }
    mine_->process.store(0);
    mpi_.win_free(&window_);
    mpi_.comm_free(&node_);
    mpi_.finalize();
  }

  absl::Status Open(int ranks) {
    int initialized = 0;
    mpi_.initialized(&initialized);
    int level = 0;
    if (initialized) {
      mpi_.query_thread(&level);
    } else if (mpi_.init_thread(nullptr, nullptr, kMpiThreadFunneled, &level) != kMpiSuccess) {
      return absl::UnavailableError("mpi: MPI_Init_thread failed");
    }
    // Kernels have threads of their own. Only this thread calls MPI.
    int main_thread = 0;
    mpi_.is_thread_main(&main_thread);
    if (level < kMpiThreadFunneled || !main_thread) {
      return absl::UnavailableError(
          absl::StrCat("mpi: needs MPI_THREAD_FUNNELED, and the thread that initialized MPI must open it; this MPI ",
                       "provides thread level ", level, main_thread ? "" : ", and this is another thread"));
    }
    thread_ = std::this_thread::get_id();
    mpi_.comm_set_errhandler(mpi_.comm_world, mpi_.errors_return);
    mpi_.comm_rank(mpi_.comm_world, &rank_);
    mpi_.comm_size(mpi_.comm_world, &size_);
    if (size_ != ranks) {
      return absl::InvalidArgumentError(
          absl::StrCat("mpi: the launcher started ", size_, " processes, but the program has ", ranks, " ranks"));
    }
    void* limit = nullptr;
    int found = 0;
    mpi_.comm_get_attr(mpi_.comm_world, kMpiTagUpperBound, &limit, &found);
    if (found && *static_cast<int*>(limit) < kMaxChannel) {
      return absl::UnavailableError(
          absl::StrCat("mpi: this MPI has too few message tags; its largest tag is ", *static_cast<int*>(limit)));
    }
    mpi_.comm_split_type(mpi_.comm_world, kMpiCommTypeShared, rank_, mpi_.info_null, &node_);
    mpi_.comm_size(node_, &node_size_);
    mpi_.comm_rank(node_, &node_rank_);
    SharedSlot* mine = nullptr;
    mpi_.win_allocate_shared(sizeof(SharedSlot), 1, mpi_.info_null, node_, &mine, &window_);
    std::memset(static_cast<void*>(mine), 0, sizeof(SharedSlot));
    mine->world_rank = rank_;
    mine->process.store(getpid());
    for (int i = 0; i < node_size_; ++i) {
      intptr_t bytes = 0;
      int unit = 0;
      SharedSlot* slot = nullptr;
      mpi_.win_shared_query(window_, i, &bytes, &unit, &slot);
      slots_.push_back(slot);
    }
    mine_ = mine;
    mpi_.barrier(mpi_.comm_world);
    requests_.reserve(256);
    return absl::OkStatus();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  absl::Status UseDevice(ComputeDevice* device) override {
    if (!device->asynchronous()) return absl::OkStatus();
    const bool taken = device_memory_ == MpiDeviceMemory::kTaken ||
                       (mpi_.query_cuda_support != nullptr && mpi_.query_cuda_support() == 1);
    if (!taken) return absl::UnimplementedError(absl::StrCat(mpi_.version, " moves memory of the host only"));
    device_ = device;
    return absl::OkStatus();
  }

  absl::Status PostSend(Transfer* transfer) override { return Post(transfer, /*send=*/true); }
  absl::Status PostRecv(Transfer* transfer) override { return Post(transfer, /*send=*/false); }

  absl::StatusOr<bool> Poll() override {
    if (Aborted()) return AbortStatus();
    bool any = woken_.exchange(false, std::memory_order_acquire);
    if (!waiting_.empty()) WEFT_RETURN_IF_ERROR(IssueWaiting());
    if (requests_.empty()) return any;
    indices_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int completed = 0;
    const int rc = mpi_.testsome(static_cast<int>(requests_.size()), requests_.data(), &completed, indices_.data(),
                                 statuses_.data());
    if (rc != kMpiSuccess && rc != kMpiErrInStatus) {
      return absl::InternalError(absl::StrCat("rank ", rank_, ": MPI_Testsome failed with code ", rc));
    }
    if (completed == kMpiUndefined || completed == 0) return any;
    const int64_t now = MonotonicNanoseconds();
    for (int i = 0; i < completed; ++i) {
      Posted& posted = posted_[indices_[i]];
      if (!posted.send) {
        int bytes = 0;
        mpi_.get_count(&statuses_[i], mpi_.byte, &bytes);
        if (statuses_[i].error == kMpiErrTruncate && rc == kMpiErrInStatus) bytes = -1;
        if (bytes != posted.bytes) {
          absl::Status mismatch = absl::InternalError(absl::StrCat(
              "channel ", posted.transfer->channel, ": rank ", rank_, " expects ", posted.bytes, " bytes, rank ",
              posted.transfer->peer, " sends ", bytes < 0 ? "more" : absl::StrCat(bytes)));
          Abort(mismatch);
          return mismatch;
        }
      }
      if (--posted.transfer->parts_left == 0) {
        posted.transfer->end_ns = now;
        posted.transfer->done.store(true, std::memory_order_release);
        any = true;
      }
    }
    size_t kept = 0;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == mpi_.request_null) continue;
      requests_[kept] = requests_[i];
      posted_[kept++] = posted_[i];
    }
    requests_.resize(kept);
    posted_.resize(kept);
    return any;
  }

  // MPI has no wait that sleeps and has a timeout, so this polls and sleeps a little longer each time.
  absl::StatusOr<bool> WaitForProgress(std::chrono::nanoseconds timeout) override {
    const auto end = std::chrono::steady_clock::now() + timeout;
    std::chrono::microseconds pause(20);
    for (int spin = 0;; ++spin) {
      absl::StatusOr<bool> any = Poll();
      if (!any.ok() || *any || std::chrono::steady_clock::now() >= end) return any;
      if (spin < 8) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 5 / 4, std::chrono::microseconds(500));
      }
    }
  }

  void Wake() override { woken_.store(true, std::memory_order_release); }

  bool Abort(const absl::Status& status) override {
    std::lock_guard<std::mutex> lock(abort_mutex_);
    if (!Aborted()) {
      const std::string text(status.message());
      mine_->abort_code = static_cast<int32_t>(status.code());
      const size_t length = std::min<size_t>(text.size(), kMessageBytes - 1);
      std::memcpy(mine_->message, text.data(), length);
      mine_->message[length] = 0;
      int32_t nobody = 0;
      Master().aborted_by.compare_exchange_strong(nobody, node_rank_ + 1);
    }
    return Master().aborted_by.load(std::memory_order_acquire) == node_rank_ + 1;
  }

  absl::Status AbortReason() override { return Aborted() ? AbortStatus() : absl::OkStatus(); }

  void Note(int64_t step, int32_t action) override {
    mine_->step.store(step, std::memory_order_relaxed);
    mine_->action.store(action, std::memory_order_relaxed);
  }

  absl::Status CheckPeers(LastNote* last) override {
    for (SharedSlot* slot : slots_) {
      const int64_t process = slot->process.load();
      if (process == 0 || kill(static_cast<pid_t>(process), 0) == 0 || errno != ESRCH) continue;
      *last = {slot->world_rank, slot->step.load(), slot->action.load()};
      return absl::AbortedError(absl::StrCat("rank ", slot->world_rank, " died (process ", process, ")"));
    }
    return absl::OkStatus();
  }

 private:
  struct Posted {
    Transfer* transfer;
    int64_t bytes;
    bool send;
  };

  SharedSlot& Master() { return *slots_[0]; }

  bool Aborted() { return Master().aborted_by.load(std::memory_order_acquire) != 0; }

  // After an abort no MPI function is called any more, so nothing here touches the transfers that are still posted.
  absl::Status AbortStatus() {
    const SharedSlot& slot = *slots_[Master().aborted_by.load(std::memory_order_acquire) - 1];
    return absl::Status(static_cast<absl::StatusCode>(slot.abort_code), slot.message);
  }

  // The launcher ends all processes when one exits with an error. So the process that reports the reason exits first,
  // but waits until the others have written what they did.
  void WaitForReport() {
    mine_->left.store(1, std::memory_order_release);
    const int winner = Master().aborted_by.load(std::memory_order_acquire) - 1;
    const auto lives = [](const SharedSlot* slot) { return kill(static_cast<pid_t>(slot->process.load()), 0) == 0; };
    const auto end = std::chrono::steady_clock::now() + (winner == node_rank_ ? kWaitForOthers : kWaitForWinner);
    while (std::chrono::steady_clock::now() < end) {
      const bool wait = winner == node_rank_
                            ? std::any_of(slots_.begin(), slots_.end(),
                                          [&](const SharedSlot* slot) {
                                            return slot->left.load(std::memory_order_acquire) == 0 && lives(slot);
                                          })
                            : lives(slots_[winner]);
      if (!wait) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  absl::Status Post(Transfer* transfer, bool send) {
    if (Aborted()) return AbortStatus();
    if (std::this_thread::get_id() != thread_) {
      return absl::InternalError(absl::StrCat("rank ", rank_, ": mpi is used by a thread that did not open it"));
    }
    if (transfer->peer < 0 || transfer->peer >= size_ || transfer->bytes < 0) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", rank_, ": a transfer of ", transfer->bytes,
                                                     " bytes with rank ", transfer->peer, " of ", size_));
    }
    transfer->owner = rank_;
    transfer->done.store(false, std::memory_order_relaxed);
    transfer->start_ns = MonotonicNanoseconds();
    transfer->parts_left = std::max<int64_t>(1, (transfer->bytes + kPartBytes - 1) / kPartBytes);
    if (transfer->stream < 0 || device_ == nullptr) return Issue(transfer, send);
    // MPI does not support streams, so the transfer is given to MPI when the stream has reached this point.
    if (free_events_.empty()) {
      WEFT_ASSIGN_OR_RETURN(const int event, device_->NewEvent(/*timed=*/false));
      free_events_.push_back(event);
    }
    const int event = free_events_.back();
    free_events_.pop_back();
    WEFT_RETURN_IF_ERROR(device_->Record(event, transfer->stream));
    waiting_.push_back({transfer, send, event});
    return IssueWaiting();
  }

  // Issues the transfers that their streams have reached. Transfers of one edge are issued in the order of their posts.
  absl::Status IssueWaiting() {
    size_t kept = 0;
    for (size_t i = 0; i < waiting_.size(); ++i) {
      const Waiting waiting = waiting_[i];
      const bool behind = std::any_of(waiting_.begin(), waiting_.begin() + kept, [&](const Waiting& before) {
        return before.send == waiting.send && before.transfer->peer == waiting.transfer->peer &&
               before.transfer->channel == waiting.transfer->channel;
      });
      bool reached = false;
      if (!behind) {
        WEFT_ASSIGN_OR_RETURN(reached, device_->Finished(waiting.event));
      }
      if (!reached) {
        waiting_[kept++] = waiting;
        continue;
      }
      free_events_.push_back(waiting.event);
      WEFT_RETURN_IF_ERROR(Issue(waiting.transfer, waiting.send));
    }
    waiting_.resize(kept);
    return absl::OkStatus();
  }

  absl::Status Issue(Transfer* transfer, bool send) {
    char* data = static_cast<char*>(transfer->data);
    for (int64_t part = 0, parts = transfer->parts_left; part < parts; ++part) {
      const int64_t bytes = std::min(kPartBytes, transfer->bytes - part * kPartBytes);
      MpiHandle request;
      // Issend, never Isend: a send that may complete early would hide a deadlock (rule P4).
      const int rc = send ? mpi_.issend(data + part * kPartBytes, static_cast<int>(bytes), mpi_.byte, transfer->peer,
                                        transfer->channel, mpi_.comm_world, &request)
                          : mpi_.irecv(data + part * kPartBytes, static_cast<int>(bytes), mpi_.byte, transfer->peer,
                                       transfer->channel, mpi_.comm_world, &request);
      if (rc != kMpiSuccess) {
        return absl::InternalError(
            absl::StrCat("rank ", rank_, ": MPI refused a transfer of ", bytes, " bytes with rank ", transfer->peer));
      }
      requests_.push_back(request);
      posted_.push_back({transfer, bytes, send});
    }
    return absl::OkStatus();
  }

  // A transfer on a device stream that has not reached it yet.
  struct Waiting {
    Transfer* transfer;
    bool send;
    int event;
  };

  const MpiTable& mpi_;
  const MpiDeviceMemory device_memory_;
  ComputeDevice* device_ = nullptr;
  std::vector<Waiting> waiting_;
  std::vector<int> free_events_;
  int rank_ = 0;
  int size_ = 1;
  MpiHandle node_ = nullptr;
  int node_size_ = 1;
  int node_rank_ = 0;
  std::thread::id thread_;
  std::mutex abort_mutex_;
  MpiHandle window_ = nullptr;
  std::vector<SharedSlot*> slots_;
  SharedSlot* mine_ = nullptr;
  std::vector<MpiHandle> requests_;
  std::vector<Posted> posted_;
  std::vector<int> indices_;
  std::vector<MpiStatus> statuses_;
  std::atomic<bool> woken_{false};
};

}  // namespace

void EndMpiJob(int exit_status, unsigned patience_seconds, const std::function<void()>& joined) {
  const absl::StatusOr<const MpiTable*> mpi = OpenMpiTable();
  if (!mpi.ok()) return;
  alarm(patience_seconds);
  int initialized = 0, level = 0;
  (*mpi)->initialized(&initialized);
  if (!initialized && (*mpi)->init_thread(nullptr, nullptr, kMpiThreadFunneled, &level) != kMpiSuccess) return;
  joined();
  (*mpi)->abort((*mpi)->comm_world, exit_status);
}

absl::StatusOr<std::unique_ptr<Endpoint>> OpenMpiEndpoint(int ranks, MpiDeviceMemory device_memory) {
  WEFT_ASSIGN_OR_RETURN(const MpiTable* table, OpenMpiTable());
  auto endpoint = std::make_unique<MpiEndpoint>(*table, device_memory);
  WEFT_RETURN_IF_ERROR(endpoint->Open(ranks));
  return endpoint;
}

absl::StatusOr<std::vector<std::unique_ptr<Endpoint>>> OpenMpi(int ranks) {
  std::vector<std::unique_ptr<Endpoint>> endpoints(1);
  WEFT_ASSIGN_OR_RETURN(endpoints[0], OpenMpiEndpoint(ranks, MpiDeviceMemory::kAsTheLibrarySays));
  return endpoints;
}

}  // namespace weft::exec
