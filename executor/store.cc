#include "executor/store.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/handshake.h"
#include "executor/monotonic_clock.h"
#include "executor/told_elsewhere.h"
#include "proto/status.h"

namespace weft {
namespace {

// All keys and values together.
constexpr size_t kMostStoredBytes = 64 << 20;
// Replies that a client has not taken.
constexpr size_t kMostOutputBytes = 4 * kMostStoreMessageBytes;
constexpr int64_t kMillisecond = 1000000;

std::string Seconds(int64_t milliseconds) { return absl::StrCat(static_cast<double>(milliseconds) / 1000, " s"); }

}  // namespace

std::string NameRanks(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return absl::StrCat("rank ", ranks[0]);
  constexpr size_t kNamed = 8;
  std::vector<int> named(ranks.begin(), ranks.begin() + static_cast<int64_t>(std::min(ranks.size(), kNamed)));
  if (ranks.size() > kNamed) {
    return absl::StrCat("ranks ", absl::StrJoin(named, ", "), " and ", ranks.size() - kNamed, " more");
  }
  const int last = named.back();
  named.pop_back();
  return absl::StrCat("ranks ", absl::StrJoin(named, ", "), " and ", last);
}

// The server's thread and all that it alone touches.
class StoreServer::Serving {
 public:
  Serving(Socket listener, SocketAddress address, const StoreOptions& options)
      : address_(address),
        options_(options),
        clients_(options.size),
        listener_(std::move(listener), {.secret = options.secret,
                                        .purpose = Purpose::kStore,
                                        .size = options.size,
                                        .patience_ns = options.patience.count(),
                                        .most_pending = 256 + static_cast<size_t>(options.size),
                                        .admit = [this](int rank) { return Admit(rank); }}),
        failure_(options.failure),
        came_(options.size),
        gone_(options.size),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    thread_ = std::thread([this] { Run(); });
  }

  ~Serving() {
    stop_.store(true, std::memory_order_release);
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.fd(), &one, sizeof one);
    thread_.join();
  }

  const SocketAddress& address() const { return address_; }

  absl::Status WaitForAll(std::chrono::nanoseconds timeout) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto missing = [&] {
      std::vector<int> ranks;
      for (int rank = 1; rank < options_.size; ++rank) {
        if (!gone_[rank]) ranks.push_back(rank);
      }
      return ranks;
    };
    if (changed_.wait_for(lock, timeout, [&] { return missing().empty(); })) return absl::OkStatus();
    return absl::DeadlineExceededError(absl::StrCat(NameRanks(missing()), " did not leave the store within ",
                                                    Seconds(timeout.count() / kMillisecond)));
  }

  void WaitForThoseHere(std::chrono::nanoseconds timeout) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, timeout, [&] {
      for (int rank = 1; rank < options_.size; ++rank) {
        if (came_[rank] && !gone_[rank]) return false;
      }
      return true;
    });
  }

  std::vector<int> Absent() const {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<int> ranks;
    for (int rank = 0; rank < options_.size; ++rank) {
      if (!came_[rank]) ranks.push_back(rank);
    }
    return ranks;
  }

 private:
  struct Client {
    Socket socket;
    StoreMessageReader reader;
    std::string output;
    bool came = false;
    // The request that waits for others.
    bool waits = false;
    StoreRequest request;
    int64_t deadline_ns = 0;
    // Until when the message that has begun must be whole, and the output be taken.
    int64_t patience_ns = -1;
  };

  absl::Status Admit(int rank) {
    Client& client = clients_[rank];
    if (!client.came) return absl::OkStatus();
    return absl::AlreadyExistsError(
        absl::StrCat("rank ", rank, client.socket.open() ? " is here already" : " was here before",
                     ": two processes of the job have the same RANK, or one of them was started again"));
  }

  void Run() {
    std::vector<pollfd> entries;
    std::vector<int> listening;
    // Of the entries of clients, which are the last.
    std::vector<int> ranks;
    while (!stop_.load(std::memory_order_acquire)) {
      entries.clear();
      listening.clear();
      ranks.clear();
      entries.push_back({.fd = wake_.fd(), .events = POLLIN, .revents = 0});
      listener_.AddDescriptors(&listening);
      for (int fd : listening) entries.push_back({.fd = fd, .events = POLLIN, .revents = 0});
      int64_t next = listener_.NextDeadline();
      for (int rank = 0; rank < options_.size; ++rank) {
        const Client& client = clients_[rank];
        if (!client.socket.open()) continue;
        ranks.push_back(rank);
        const short events = static_cast<short>(client.output.empty() ? POLLIN : POLLIN | POLLOUT);
        entries.push_back({.fd = client.socket.fd(), .events = events, .revents = 0});
        for (int64_t deadline : {client.waits ? client.deadline_ns : -1, client.patience_ns}) {
          if (deadline >= 0 && (next < 0 || deadline < next)) next = deadline;
        }
      }
      int timeout_ms = -1;
      if (next >= 0) {
        timeout_ms = static_cast<int>(std::clamp<int64_t>((next - MonotonicNanoseconds()) / kMillisecond + 1, 0, 1000));
      }
      poll(entries.data(), entries.size(), timeout_ms);
      for (ProvingListener::Accepted& accepted : listener_.Advance()) {
        Client& client = clients_[accepted.rank];
        // Two of the same rank may have proven themselves at once.
        if (client.came) continue;
        client.came = true;
        client.socket = std::move(accepted.socket);
        std::lock_guard<std::mutex> lock(mutex_);
        came_[accepted.rank] = true;
      }
      for (size_t i = 0; i < ranks.size(); ++i) {
        const pollfd& entry = entries[entries.size() - ranks.size() + i];
        if (entry.revents != 0 && clients_[ranks[i]].socket.open()) Read(ranks[i]);
      }
      Expire();
      for (int rank = 0; rank < options_.size; ++rank) {
        if (clients_[rank].socket.open()) Write(clients_[rank]);
      }
    }
  }

  void Read(int rank) {
    Client& client = clients_[rank];
    char bytes[16384];
    // What one client sends at a time is bounded, so that the others have their turn.
    for (int i = 0; i < 16 && client.socket.open(); ++i) {
      const ssize_t got = recv(client.socket.fd(), bytes, sizeof bytes, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (got <= 0) return Lose(rank, "its connection was closed");
      if (absl::Status status = client.reader.Append(absl::string_view(bytes, got)); !status.ok()) {
        return Lose(rank, absl::StrCat("it sent ", std::string(status.message())));
      }
      std::string message;
      while (client.socket.open() && client.reader.Next(&message)) {
        absl::StatusOr<StoreRequest> request = DecodeStoreRequest(message);
        if (!request.ok()) return Lose(rank, absl::StrCat("it sent ", std::string(request.status().message())));
        if (client.waits && request->operation != StoreOperation::kFail) {
          return Lose(rank, "it sent a request while another was under way");
        }
        Handle(rank, *std::move(request));
        if (client.output.size() > kMostOutputBytes) return Lose(rank, "it does not take the store's replies");
      }
      if (!client.socket.open()) return;
      if (!client.reader.partial()) {
        client.patience_ns = -1;
      } else if (client.patience_ns < 0) {
        client.patience_ns = MonotonicNanoseconds() + options_.patience.count();
      }
    }
  }

  void Handle(int rank, StoreRequest request) {
    Client& client = clients_[rank];
    const bool about_failure =
        request.operation == StoreOperation::kFail || request.operation == StoreOperation::kLeave;
    if (!failure_.ok() && !about_failure) return Reply(client, FailureFor(rank), "");
    switch (request.operation) {
      case StoreOperation::kSet: {
        auto [entry, added] = values_.try_emplace(request.key);
        const size_t after = stored_ - entry->second.size() + request.value.size() + (added ? request.key.size() : 0);
        if (after > kMostStoredBytes) {
          if (added) values_.erase(entry);
          return Reply(client, absl::ResourceExhaustedError("the store is full"), "");
        }
        stored_ = after;
        entry->second = std::move(request.value);
        Reply(client, absl::OkStatus(), "");
        for (Client& other : clients_) {
          if (!other.waits || other.request.operation != StoreOperation::kWait || other.request.key != request.key) {
            continue;
          }
          other.waits = false;
          Reply(other, absl::OkStatus(), entry->second);
        }
        return;
      }
      case StoreOperation::kGet:
      case StoreOperation::kWait: {
        const auto found = values_.find(request.key);
        if (found != values_.end()) return Reply(client, absl::OkStatus(), found->second);
        if (request.operation == StoreOperation::kGet) {
          return Reply(client, absl::NotFoundError(absl::StrCat("the store has no '", request.key, "'")), "");
        }
        return BeginWait(rank, std::move(request));
      }
      case StoreOperation::kBarrier: {
        std::set<int>& arrived = barriers_[request.key];
        if (!arrived.insert(rank).second) {
          return Reply(client,
                       absl::FailedPreconditionError(
                           absl::StrCat("rank ", rank, " is at barrier '", request.key, "' for the second time")),
                       "");
        }
        if (static_cast<int>(arrived.size()) < options_.size) return BeginWait(rank, std::move(request));
        Reply(client, absl::OkStatus(), "");
        for (Client& other : clients_) {
          if (!other.waits || other.request.operation != StoreOperation::kBarrier || other.request.key != request.key) {
            continue;
          }
          other.waits = false;
          Reply(other, absl::OkStatus(), "");
        }
        return;
      }
      case StoreOperation::kLeave:
        client.socket.Close();
        SetGone(rank);
        return;
      case StoreOperation::kFail:
        client.waits = false;
        Fail(DecodeFailure(request.value), rank);
        return Reply(client, said_by_ == rank ? absl::OkStatus() : FailureFor(rank), kSayIt);
    }
  }

  // Only the first counts.
  void Fail(const absl::Status& status, int said_by) {
    if (!failure_.ok()) return;
    failure_ = status;
    said_by_ = said_by;
    for (int rank = 0; rank < options_.size; ++rank) {
      if (std::exchange(clients_[rank].waits, false)) Reply(clients_[rank], FailureFor(rank), "");
    }
  }

  absl::Status FailureFor(int rank) const { return rank == said_by_ ? failure_ : ToldElsewhere(failure_); }

  void BeginWait(int rank, StoreRequest request) {
    Client& client = clients_[rank];
    client.waits = true;
    client.deadline_ns = MonotonicNanoseconds() + static_cast<int64_t>(request.timeout_ms) * kMillisecond;
    client.request = std::move(request);
  }

  // A rank that is gone before it said goodbye will not do what others wait for.
  void Lose(int rank, const std::string& why) {
    Client& client = clients_[rank];
    client.socket.Close();
    SetGone(rank);
    client.waits = false;
    client.patience_ns = -1;
    Fail(absl::AbortedError(absl::StrCat("rank ", rank, " was lost while the job was starting: ", why)), 0);
  }

  // Its connection is over, in order or not.
  void SetGone(int rank) {
    std::lock_guard<std::mutex> lock(mutex_);
    gone_[rank] = true;
    changed_.notify_all();
  }

  void Expire() {
    const int64_t now = MonotonicNanoseconds();
    for (int rank = 0; rank < options_.size; ++rank) {
      Client& client = clients_[rank];
      if (client.patience_ns >= 0 && now >= client.patience_ns) {
        Lose(rank, absl::StrCat("a message was not whole within ", Seconds(options_.patience.count() / kMillisecond)));
      }
      if (!client.waits || now < client.deadline_ns) continue;
      client.waits = false;
      Reply(client, absl::DeadlineExceededError(WhyLate(client.request)), "");
    }
  }

  std::string WhyLate(const StoreRequest& request) const {
    std::vector<int> absent, late;
    const auto barrier = barriers_.find(request.key);
    for (int rank = 0; rank < options_.size; ++rank) {
      if (!clients_[rank].came) {
        absent.push_back(rank);
      } else if (request.operation == StoreOperation::kBarrier && barrier != barriers_.end() &&
                 barrier->second.count(rank) == 0) {
        late.push_back(rank);
      }
    }
    const std::string within = absl::StrCat(" within ", Seconds(static_cast<int64_t>(request.timeout_ms)));
    if (!absent.empty()) {
      return absl::StrCat(NameRanks(absent), " of ", options_.size, " did not come to ", address_.ToString(), within);
    }
    if (!late.empty()) return absl::StrCat(NameRanks(late), " did not come to '", request.key, "'", within);
    return absl::StrCat("nobody has set '", request.key, "'", within);
  }

  void Reply(Client& client, const absl::Status& status, absl::string_view value) {
    if (!client.socket.open()) return;
    absl::StrAppend(&client.output, WithLength(EncodeStoreReply(status, value)));
  }

  void Write(Client& client) {
    while (!client.output.empty()) {
      const ssize_t sent = send(client.socket.fd(), client.output.data(), client.output.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      // A lost connection is noticed when it is read from.
      if (sent < 0) return;
      client.output.erase(0, sent);
    }
  }

  const SocketAddress address_;
  const StoreOptions options_;
  std::vector<Client> clients_;
  ProvingListener listener_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::set<int>> barriers_;
  size_t stored_ = 0;
  // Why nothing can succeed any more, and the rank that says it.
  absl::Status failure_;
  int said_by_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> came_, gone_;
  Socket wake_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

StoreServer::StoreServer(std::unique_ptr<Serving> serving) : serving_(std::move(serving)) {}
StoreServer::~StoreServer() = default;
const SocketAddress& StoreServer::address() const { return serving_->address(); }
absl::Status StoreServer::WaitForAll(std::chrono::nanoseconds timeout) { return serving_->WaitForAll(timeout); }
void StoreServer::WaitForThoseHere(std::chrono::nanoseconds timeout) { serving_->WaitForThoseHere(timeout); }
std::vector<int> StoreServer::Absent() const { return serving_->Absent(); }

absl::StatusOr<std::unique_ptr<StoreServer>> StoreServer::Start(Socket listener, const StoreOptions& options) {
  if (options.size < 1) return absl::InvalidArgumentError(absl::StrCat("a job of ", options.size, " processes"));
  WEFT_ASSIGN_OR_RETURN(const SocketAddress address, LocalAddress(listener));
  return std::unique_ptr<StoreServer>(
      new StoreServer(std::make_unique<Serving>(std::move(listener), address, options)));
}

absl::StatusOr<std::unique_ptr<StoreServer>> StoreServer::Listen(const std::string& host, int port,
                                                                 const StoreOptions& options) {
  const absl::StatusOr<std::vector<SocketAddress>> addresses = ResolveHost(host, port);
  absl::Status first = addresses.status();
  if (addresses.ok()) {
    for (const SocketAddress& address : *addresses) {
      absl::StatusOr<Socket> listener = ListenOn(address);
      if (listener.ok()) return Start(*std::move(listener), options);
      first.Update(listener.status());
    }
  }
  return absl::FailedPreconditionError(absl::StrCat("rank 0 serves the rendezvous store at MASTER_ADDR=", host,
                                                    ", MASTER_PORT=", port, ": ", std::string(first.message())));
}

}  // namespace weft
