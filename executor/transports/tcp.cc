#include "executor/transports/tcp.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/transports/tcp_mesh.h"
#include "executor/transports/tcp_peer.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

constexpr std::chrono::milliseconds kNotePeriod(100);
// How long the lowest living rank has to report a death before another rank does.
constexpr int64_t kReportNs = int64_t{2} * 1000 * 1000 * 1000;

// The step and action that a rank works on, in memory that the local launcher shares among the processes.
struct SharedNote {
  std::atomic<int64_t> step;
  std::atomic<int32_t> action;
};

// A thread of the endpoint moves messages while the rank computes. One lock protects everything, and no thread holds it
// while it waits. After an abort, no memory of a transfer is therefore touched any more.
class TcpEndpoint : public Endpoint {
 public:
  TcpEndpoint(const Rendezvous& rendezvous, std::vector<TcpConnection> connections, bool own_process)
      : rank_(rendezvous.process.rank), size_(rendezvous.process.size), own_process_(own_process) {
    events_.on_done = [this](Transfer* transfer) { Complete(transfer); };
    events_.on_abort = [this](const absl::Status& status) { abort_asked_ = {current_, status}; };
    events_.on_verdict = [this](int by, const absl::Status& status) { verdict_ = {by, status}; };
    events_.on_error = [this](const absl::Status& status) { error_.Update(status); };
    for (int rank = 0; rank < size_; ++rank) {
      peers_.push_back(std::make_unique<TcpPeer>(rank_, rank, size_, std::move(connections[rank]), &events_));
    }
    MapNotes(rendezvous.notes_fd);
    poll_ = Socket(epoll_create1(EPOLL_CLOEXEC));
    wake_ = Socket(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    Watch(wake_.fd(), size_, EPOLLIN, EPOLL_CTL_ADD);
    watched_.assign(size_, 0);
    for (int rank = 0; rank < size_; ++rank) Rewatch(rank);
    thread_ = std::thread([this] { Run(); });
  }

  ~TcpEndpoint() override {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      const bool in_order = !aborted_.load(std::memory_order_relaxed);
      if (in_order) {
        for (auto& peer : peers_) peer->Queue({.kind = FrameKind::kBye}, "");
      }
      WriteAll();
      const auto all = [this](auto holds) { return std::all_of(peers_.begin(), peers_.end(), holds); };
      moved_.wait_for(lock, std::chrono::seconds(in_order ? 5 : 1),
                      [&] { return all([](const auto& peer) { return peer->flushed(); }); });
      if (own_process_ && in_order) {
        moved_.wait_for(lock, std::chrono::seconds(2),
                        [&] { return all([](const auto& peer) { return !peer->open() || peer->left(); }); });
      } else if (own_process_ && by_ != rank_) {
        // The launcher ends all processes when one exits with an error, so the process that reports the reason exits
        // first. This wait is longer than a watchdog gives a stuck rank (executor/faults/watchdog.h).
        moved_.wait_for(lock, std::chrono::seconds(8), [&] { return !peers_[by_]->open(); });
      }
      stopping_ = true;
    }
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.fd(), &one, sizeof one);
    thread_.join();
    if (own_process_ && aborted_ && by_ == rank_) {
      for (auto& peer : peers_) peer->KeepOpen();
    }
    if (notes_ != nullptr) munmap(notes_, sizeof(SharedNote) * size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  absl::Status PostSend(Transfer* transfer) override { return Post(transfer, /*send=*/true); }
  absl::Status PostRecv(Transfer* transfer) override { return Post(transfer, /*send=*/false); }

  absl::StatusOr<bool> Poll() override {
    if (aborted_.load(std::memory_order_acquire)) return reason_;
    const uint64_t events = progress_.load(std::memory_order_acquire);
    return std::exchange(seen_, events) != events;
  }

  absl::StatusOr<bool> WaitForProgress(std::chrono::nanoseconds timeout) override {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait_for(lock, timeout, [&] {
        return progress_.load(std::memory_order_relaxed) != seen_ || aborted_.load(std::memory_order_relaxed);
      });
    }
    return Poll();
  }

  void Wake() override {
    std::lock_guard<std::mutex> lock(mutex_);
    Signal();
  }

  bool Abort(const absl::Status& status) override {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto over = [this] { return aborted_.load(std::memory_order_relaxed); };
    // The lowest living rank decides whose abort is the first. If it dies meanwhile, the next one is asked.
    const int64_t give_up = MonotonicNanoseconds() + kReportNs;
    int asked = -1;
    while (!over() && MonotonicNanoseconds() < give_up) {
      const int judge = LowestAlive();
      if (judge == rank_) {
        Decide(rank_, status, /*tell=*/true);
        break;
      }
      if (judge != asked) {
        asked = judge;
        peers_[judge]->Queue({.kind = FrameKind::kAbort}, EncodeStatus(status));
        Write(judge);
        HandleEvents();
      }
      changed_.wait_for(lock, std::chrono::milliseconds(20), over);
    }
    if (!over()) Decide(rank_, status, /*tell=*/true);
    return by_ == rank_;
  }

  absl::Status AbortReason() override { return aborted_.load(std::memory_order_acquire) ? reason_ : absl::OkStatus(); }

  void Note(int64_t step, int32_t action) override {
    note_step_.store(step, std::memory_order_relaxed);
    note_action_.store(action, std::memory_order_relaxed);
    if (notes_ == nullptr) return;
    notes_[rank_].step.store(step, std::memory_order_relaxed);
    notes_[rank_].action.store(action, std::memory_order_relaxed);
  }

  absl::Status CheckPeers(LastNote* last) override {
    std::lock_guard<std::mutex> lock(mutex_);
    const int64_t now = MonotonicNanoseconds();
    for (int rank = 0; rank < size_; ++rank) {
      const TcpPeer& peer = *peers_[rank];
      if (rank == rank_ || peer.open()) continue;
      if (peer.left()) {
        // The peer has sent everything that it will ever send.
        if (!peer.HasTransfers()) continue;
        *last = NoteOf(rank);
        return absl::AbortedError(absl::StrCat("rank ", rank, " has ended, but rank ", rank_, " still waits for it"));
      }
      if (LowestAlive() != rank_ && now - peer.lost_ns() < kReportNs) continue;
      *last = NoteOf(rank);
      return absl::AbortedError(absl::StrCat("rank ", rank, " died (", peer.Description(),
                                             notes_ == nullptr ? "; step and action are the last ones reported" : "",
                                             ")"));
    }
    return absl::OkStatus();
  }

 private:
  // The functions below are called with the lock held, except MapNotes, Post and Run.

  void MapNotes(int fd) {
    struct stat file;
    const size_t bytes = sizeof(SharedNote) * static_cast<size_t>(size_);
    if (fd < 0 || fstat(fd, &file) != 0 || static_cast<size_t>(file.st_size) < bytes) return;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED) notes_ = static_cast<SharedNote*>(memory);
  }

  LastNote NoteOf(int rank) const {
    if (notes_ != nullptr) return {rank, notes_[rank].step.load(), notes_[rank].action.load()};
    return {rank, peers_[rank]->step(), peers_[rank]->action()};
  }

  int LowestAlive() const {
    int rank = 0;
    while (rank != rank_ && !peers_[rank]->open()) ++rank;
    return rank;
  }

  void Signal() {
    progress_.fetch_add(1, std::memory_order_release);
    changed_.notify_all();
  }

  void Complete(Transfer* transfer) {
    // From here on the owner may reuse the transfer.
    transfer->done.store(true, std::memory_order_release);
    Signal();
  }

  absl::Status Post(Transfer* transfer, bool send) {
    if (transfer->peer < 0 || transfer->peer >= size_ || transfer->bytes < 0 || transfer->channel < 0 ||
        transfer->channel > kMaxChannel) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", rank_, ": a transfer of ", transfer->bytes,
                                                     " bytes with rank ", transfer->peer, " of ", size_, " on channel ",
                                                     transfer->channel));
    }
    transfer->owner = rank_;
    transfer->done.store(false, std::memory_order_relaxed);
    std::lock_guard<std::mutex> lock(mutex_);
    if (aborted_.load(std::memory_order_relaxed)) return reason_;
    if (transfer->peer == rank_) return PostToSelf(transfer, send);
    TcpPeer& peer = *peers_[transfer->peer];
    send ? peer.PostSend(transfer) : peer.PostRecv(transfer);
    Write(transfer->peer);
    HandleEvents();
    return aborted_.load(std::memory_order_relaxed) ? reason_ : absl::OkStatus();
  }

  absl::Status PostToSelf(Transfer* transfer, bool send) {
    auto& [sends, receives] = to_self_[transfer->channel];
    Transfer* partner = (send ? receives : sends).Pop();
    if (partner == nullptr) {
      (send ? sends : receives).Push(transfer);
      return absl::OkStatus();
    }
    if (partner->bytes != transfer->bytes) {
      const absl::Status mismatch = absl::InternalError(
          absl::StrCat("channel ", transfer->channel, ": rank ", rank_, send ? " sends " : " expects ", transfer->bytes,
                       " bytes, rank ", rank_, send ? " expects " : " sends ", partner->bytes));
      error_.Update(mismatch);
      HandleEvents();
      return mismatch;
    }
    transfer->start_ns = partner->start_ns = MonotonicNanoseconds();
    if (transfer->bytes > 0) {
      std::memcpy((send ? partner : transfer)->data, (send ? transfer : partner)->data,
                  static_cast<size_t>(transfer->bytes));
    }
    transfer->end_ns = partner->end_ns = MonotonicNanoseconds();
    Complete(partner);
    Complete(transfer);
    return absl::OkStatus();
  }

  // Ends the job for this rank. If `tell`, this rank informs the others.
  void Decide(int by, const absl::Status& status, bool tell) {
    if (aborted_.load(std::memory_order_relaxed)) return;
    reason_ = status;
    by_ = by;
    aborted_.store(true, std::memory_order_release);
    to_self_.clear();
    for (auto& peer : peers_) peer->DropTransfers();
    for (size_t i = 0; tell && i < peers_.size(); ++i) {
      peers_[i]->Queue({.kind = FrameKind::kVerdict, .channel = by}, EncodeStatus(status));
    }
    WriteAll();
    changed_.notify_all();
  }

  // Handles the events that reading and writing have found. This may itself write.
  void HandleEvents() {
    if (verdict_.first >= 0) Decide(verdict_.first, verdict_.second, /*tell=*/false);
    if (abort_asked_.first >= 0) Decide(abort_asked_.first, abort_asked_.second, /*tell=*/true);
    if (!error_.ok() && !aborted_.load(std::memory_order_relaxed) && !error_sent_) {
      const int judge = LowestAlive();
      if (judge == rank_) {
        Decide(rank_, error_, /*tell=*/true);
      } else {
        error_sent_ = true;
        peers_[judge]->Queue({.kind = FrameKind::kAbort}, EncodeStatus(error_));
        Write(judge);
      }
    }
    abort_asked_.first = -1;
    verdict_.first = -1;
  }

  void Write(int rank) {
    current_ = rank;
    if (peers_[rank]->open()) {
      peers_[rank]->SetNote(note_step_.load(std::memory_order_relaxed), note_action_.load(std::memory_order_relaxed));
      peers_[rank]->Write();
    }
    Rewatch(rank);
  }

  void WriteAll() {
    for (int rank = 0; rank < size_; ++rank) Write(rank);
  }

  void Watch(int fd, int number, uint32_t events, int operation) {
    epoll_event event = {};
    event.events = events;
    event.data.u32 = static_cast<uint32_t>(number);
    epoll_ctl(poll_.fd(), operation, fd, &event);
  }

  // Closing a connection ends its watch.
  void Rewatch(int rank) {
    const TcpPeer& peer = *peers_[rank];
    const uint32_t wanted = !peer.open() ? 0 : peer.blocked() ? EPOLLIN | EPOLLOUT : EPOLLIN;
    if (wanted == watched_[rank]) return;
    if (wanted != 0) Watch(peer.fd(), rank, wanted, watched_[rank] == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD);
    watched_[rank] = wanted;
  }

  // Sends this rank's note to rank 0, which would report this rank's death.
  void SendNote() {
    if (rank_ == 0 || notes_ != nullptr || !peers_[0]->open() || aborted_.load(std::memory_order_relaxed)) return;
    const std::pair<int64_t, int32_t> note(note_step_.load(std::memory_order_relaxed),
                                           note_action_.load(std::memory_order_relaxed));
    if (std::exchange(told_, note) == note) return;
    peers_[0]->SetNote(note.first, note.second);
    peers_[0]->Queue({.kind = FrameKind::kNote}, "");
    Write(0);
  }

  // The body of the thread.
  void Run() {
    epoll_event events[64];
    const int period = rank_ == 0 || notes_ != nullptr ? -1 : static_cast<int>(kNotePeriod.count());
    for (;;) {
      const int count = epoll_wait(poll_.fd(), events, 64, period);
      std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_) return;
      for (int i = 0; i < count; ++i) {
        const int rank = static_cast<int>(events[i].data.u32);
        if (rank >= size_ || !peers_[rank]->open()) continue;
        current_ = rank;
        if ((events[i].events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) peers_[rank]->Read();
        HandleEvents();
        // What was read may have made sends ready.
        Write(rank);
        HandleEvents();
        if (!peers_[rank]->open()) Signal();
      }
      SendNote();
      moved_.notify_all();
    }
  }

  const int rank_, size_;
  const bool own_process_;
  TcpPeer::Events events_;
  std::vector<std::unique_ptr<TcpPeer>> peers_;
  std::map<int, std::pair<TransferQueue, TransferQueue>> to_self_;
  SharedNote* notes_ = nullptr;
  std::atomic<int64_t> note_step_{0};
  std::atomic<int32_t> note_action_{0};
  std::pair<int64_t, int32_t> told_{0, 0};

  std::mutex mutex_;
  std::condition_variable changed_;
  // Notified after every round of the thread's loop, when messages may have moved.
  std::condition_variable moved_;
  std::atomic<uint64_t> progress_{0};
  uint64_t seen_ = 0;
  std::atomic<bool> aborted_{false};
  // Written once, before `aborted_` is set.
  absl::Status reason_;
  int by_ = -1;
  // Events of the peer `current_`, found while it was read or written.
  int current_ = -1;
  std::pair<int, absl::Status> verdict_{-1, absl::OkStatus()}, abort_asked_{-1, absl::OkStatus()};
  absl::Status error_;
  bool error_sent_ = false;

  Socket poll_, wake_;
  // The events that each connection is watched for.
  std::vector<uint32_t> watched_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Endpoint>> OpenTcpEndpoint(const Rendezvous& rendezvous, bool own_process) {
  WEFT_ASSIGN_OR_RETURN(std::vector<TcpConnection> connections, ConnectMesh(rendezvous));
  return std::make_unique<TcpEndpoint>(rendezvous, std::move(connections), own_process);
}

absl::StatusOr<std::vector<std::unique_ptr<Endpoint>>> OpenTcp(int ranks) {
  WEFT_ASSIGN_OR_RETURN(const Rendezvous rendezvous, FindRendezvous(WantedBootstrap(), ProcessEnvironment()));
  if (rendezvous.process.size != ranks) {
    return absl::InvalidArgumentError(absl::StrCat("tcp: the launcher started ", rendezvous.process.size,
                                                   " processes, but the program has ", ranks, " ranks"));
  }
  std::vector<std::unique_ptr<Endpoint>> endpoints(1);
  WEFT_ASSIGN_OR_RETURN(endpoints[0], OpenTcpEndpoint(rendezvous, /*own_process=*/true));
  return endpoints;
}

}  // namespace weft::exec
