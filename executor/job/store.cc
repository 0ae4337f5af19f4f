#include "executor/job/store.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/job/handshake.h"
#include "executor/job/store_state.h"
#include "executor/platform/monotonic_clock.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

// Maximum bytes of replies that wait because a client does not read them.
constexpr size_t kMaxOutputBytes = 4 * kMaxStoreMessageBytes;
constexpr int64_t kMillisecond = 1000000;

std::string Seconds(int64_t milliseconds) { return absl::StrCat(static_cast<double>(milliseconds) / 1000, " s"); }

// The earlier of two deadlines; -1 = none.
int64_t Sooner(int64_t a, int64_t b) { return a < 0 || (b >= 0 && b < a) ? b : a; }

}  // namespace

// The server's thread and its data.
class StoreServer::Serving {
 public:
  Serving(Socket listener, SocketAddress address, const StoreOptions& options)
      : address_(address),
        options_(options),
        clients_(options.size),
        state_(options.size, address.ToString(), options.failure),
        listener_(std::move(listener), {.secret = options.secret,
                                        .purpose = Purpose::kStore,
                                        .size = options.size,
                                        .patience_ns = options.patience.count(),
                                        .most_pending = 256 + static_cast<size_t>(options.size),
                                        .admit = [this](int rank) { return Admit(rank); }}),
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
        if (state_.came(rank) && !gone_[rank]) return false;
      }
      return true;
    });
  }

  std::vector<int> Absent() const {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<int> ranks;
    for (int rank = 0; rank < options_.size; ++rank) {
      if (!state_.came(rank)) ranks.push_back(rank);
    }
    return ranks;
  }

 private:
  struct Client {
    Socket socket;
    StoreMessageReader reader;
    std::string output;
    // Deadline for the rest of a message that has partly arrived; -1 = none.
    int64_t patience_ns = -1;
  };

  absl::Status Admit(int rank) {
    if (!state_.came(rank)) return absl::OkStatus();
    return absl::AlreadyExistsError(
        absl::StrCat("rank ", rank, clients_[rank].socket.open() ? " is connected already" : " was connected before",
                     ": two processes of the job have the same RANK, or one of them was started again"));
  }

  void Run() {
    std::vector<pollfd> entries;
    std::vector<int> listening;
    // Ranks of the clients in `entries`. The entries of the clients are the last ones.
    std::vector<int> ranks;
    while (!stop_.load(std::memory_order_acquire)) {
      entries.clear();
      listening.clear();
      ranks.clear();
      entries.push_back({.fd = wake_.fd(), .events = POLLIN, .revents = 0});
      listener_.AddDescriptors(&listening);
      for (int fd : listening) entries.push_back({.fd = fd, .events = POLLIN, .revents = 0});
      int64_t next = Sooner(listener_.NextDeadline(), state_.NextDeadline());
      for (int rank = 0; rank < options_.size; ++rank) {
        const Client& client = clients_[rank];
        if (!client.socket.open()) continue;
        ranks.push_back(rank);
        const short events = static_cast<short>(client.output.empty() ? POLLIN : POLLIN | POLLOUT);
        entries.push_back({.fd = client.socket.fd(), .events = events, .revents = 0});
        next = Sooner(next, client.patience_ns);
      }
      int timeout_ms = -1;
      if (next >= 0) {
        timeout_ms = static_cast<int>(std::clamp<int64_t>((next - MonotonicNanoseconds()) / kMillisecond + 1, 0, 1000));
      }
      poll(entries.data(), entries.size(), timeout_ms);
      for (ProvingListener::Accepted& accepted : listener_.Advance()) {
        // Two connections of the same rank may have passed the handshake at the same time. Only the first counts.
        if (state_.came(accepted.rank)) continue;
        clients_[accepted.rank].socket = std::move(accepted.socket);
        std::lock_guard<std::mutex> lock(mutex_);
        state_.Come(accepted.rank);
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
    // Bounds the bytes that are read from one client at a time, so that the other clients are served too.
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
        if (state_.waits(rank) && request->operation != StoreOperation::kFail) {
          return Lose(rank, "it sent a request before the previous one was answered");
        }
        Handle(rank, *std::move(request));
        if (client.output.size() > kMaxOutputBytes) return Lose(rank, "it does not read the store's replies");
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
    if (request.operation == StoreOperation::kLeave) {
      clients_[rank].socket.Close();
      return SetGone(rank);
    }
    std::vector<StoreAnswer> answers;
    state_.Handle(rank, std::move(request), MonotonicNanoseconds(), &answers);
    Send(answers);
  }

  void Lose(int rank, const std::string& why) {
    Client& client = clients_[rank];
    client.socket.Close();
    SetGone(rank);
    client.patience_ns = -1;
    std::vector<StoreAnswer> answers;
    state_.Lose(rank, why, &answers);
    Send(answers);
  }

  // Records that the rank's connection is over, because the rank has left or because the connection was lost.
  void SetGone(int rank) {
    std::lock_guard<std::mutex> lock(mutex_);
    gone_[rank] = true;
    changed_.notify_all();
  }

  void Expire() {
    const int64_t now = MonotonicNanoseconds();
    for (int rank = 0; rank < options_.size; ++rank) {
      if (clients_[rank].patience_ns < 0 || now < clients_[rank].patience_ns) continue;
      Lose(rank, absl::StrCat("a message was not complete within ", Seconds(options_.patience.count() / kMillisecond)));
    }
    std::vector<StoreAnswer> answers;
    state_.Expire(now, &answers);
    Send(answers);
  }

  void Send(const std::vector<StoreAnswer>& answers) {
    for (const StoreAnswer& answer : answers) {
      Client& client = clients_[answer.rank];
      if (!client.socket.open()) continue;
      absl::StrAppend(&client.output, WithLength(EncodeStoreReply(answer.status, answer.value)));
    }
  }

  void Write(Client& client) {
    while (!client.output.empty()) {
      const ssize_t sent = send(client.socket.fd(), client.output.data(), client.output.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      // Read will notice it if the connection is lost.
      if (sent < 0) return;
      client.output.erase(0, sent);
    }
  }

  const SocketAddress address_;
  const StoreOptions options_;
  std::vector<Client> clients_;
  StoreState state_;
  ProvingListener listener_;
  // Protects gone_ and, in state_, which ranks have come: other threads read both.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> gone_;
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

}  // namespace weft::exec
