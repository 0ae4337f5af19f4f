#include "executor/transports/tcp_mesh.h"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "executor/job/announce_failure.h"
#include "executor/job/handshake.h"
#include "executor/job/reported_remotely.h"
#include "executor/job/store_state.h"
#include "executor/platform/monotonic_clock.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

// How often the store is asked whether the job has failed meanwhile.
constexpr int64_t kCheckNs = int64_t{500} * 1000 * 1000;
// How long the store still runs after a stop, so that the ranks that are connected to it learn of the stop.
constexpr std::chrono::seconds kLinger(3);

// Returns an error if this process has been asked to stop.
absl::Status NotStopped(const Rendezvous& rendezvous) {
  if (rendezvous.stop == nullptr || !rendezvous.stop->load(std::memory_order_relaxed)) return absl::OkStatus();
  return absl::CancelledError(
      absl::StrCat("rank ", rendezvous.process.rank, " was stopped by a signal before all ranks had connected"));
}

std::string AddressKey(int rank) { return absl::StrCat("tcp address of rank ", rank); }

// Accepts the connections of the higher ranks, in a thread of its own, while this rank connects to the lower ones.
class Accepting {
 public:
  Accepting(Socket listener, const Rendezvous& rendezvous)
      : rank_(rendezvous.process.rank),
        missing_(rendezvous.process.size - 1 - rendezvous.process.rank),
        connections_(rendezvous.process.size),
        listener_(std::move(listener), {.secret = rendezvous.secret,
                                        .purpose = Purpose::kTransport,
                                        .size = rendezvous.process.size,
                                        .most_pending = 256 + static_cast<size_t>(rendezvous.process.size),
                                        .admit = [this](int rank) { return Admit(rank); }}) {
    thread_ = std::thread([this] { Run(); });
  }
  ~Accepting() { Stop(); }

  // Returns the connections when all higher ranks have proven themselves. They have done so once all ranks report that
  // they have connected.
  std::vector<TcpConnection> Finish() {
    thread_.join();
    return std::move(connections_);
  }

 private:
  absl::Status Admit(int rank) {
    if (rank <= rank_) return absl::InvalidArgumentError("only the higher of two ranks may connect to the lower");
    if (!connections_[rank].socket.open()) return absl::OkStatus();
    return absl::AlreadyExistsError("it is connected already");
  }

  void Stop() {
    stop_.store(true, std::memory_order_release);
    if (thread_.joinable()) thread_.join();
  }

  void Run() {
    std::vector<int> descriptors;
    std::vector<pollfd> entries;
    while (missing_ > 0 && !stop_.load(std::memory_order_acquire)) {
      descriptors.clear();
      entries.clear();
      listener_.AddDescriptors(&descriptors);
      for (int fd : descriptors) entries.push_back({.fd = fd, .events = POLLIN, .revents = 0});
      poll(entries.data(), entries.size(), 50);
      for (ProvingListener::Accepted& accepted : listener_.Advance()) {
        TcpConnection& connection = connections_[accepted.rank];
        if (connection.socket.open()) continue;
        const auto address = PeerAddress(accepted.socket);
        connection = {std::move(accepted.socket), accepted.process, address.ok() ? address->Host() : "?"};
        --missing_;
      }
    }
  }

  const int rank_;
  int missing_;
  std::vector<TcpConnection> connections_;
  ProvingListener listener_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Parses "127.0.0.1 40321 5123": host, port, process.
absl::Status ParseAddress(const std::string& text, std::string* host, int* port, int64_t* process) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  if (words.size() != 3 || !absl::SimpleAtoi(words[1], port) || *port < 1 || *port > 65535 ||
      !absl::SimpleAtoi(words[2], process)) {
    return absl::InternalError(absl::StrCat("the store has '", text, "' as an address"));
  }
  *host = words[0];
  return absl::OkStatus();
}

absl::StatusOr<TcpConnection> ConnectToRank(const Rendezvous& rendezvous, int peer, const std::string& text,
                                            const Until& until) {
  TcpConnection connection;
  int port = 0;
  WEFT_RETURN_IF_ERROR(ParseAddress(text, &connection.host, &port, &connection.process));
  WEFT_ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses, ResolveHost(connection.host, port));
  const std::string server = absl::StrCat("rank ", peer, " at ", addresses[0].ToString());
  const LaunchedAs& process = rendezvous.process;
  for (auto pause = std::chrono::milliseconds(10);; pause = std::min(pause * 2, std::chrono::milliseconds(500))) {
    absl::StatusOr<Socket> socket = ConnectTo(addresses[0], until);
    absl::Status status = socket.status();
    if (status.ok()) {
      SetForMessages(*socket);
      status =
          ProveToServer(*socket, server, rendezvous.secret, Purpose::kTransport, process.rank, process.size, until);
    }
    if (status.ok()) {
      connection.socket = *std::move(socket);
      return connection;
    }
    WEFT_RETURN_IF_ERROR(until.CheckGoOn());
    if (absl::IsPermissionDenied(status) || absl::IsFailedPrecondition(status)) return status;
    if (MonotonicNanoseconds() + std::chrono::nanoseconds(pause).count() >= until.deadline_ns) {
      return absl::DeadlineExceededError(absl::StrCat("rank ", process.rank, " cannot reach ", server, ": ",
                                                      std::string(status.message()),
                                                      "; ranks connect to each other on ports that the system chooses, "
                                                      "so a firewall between the nodes must allow these connections"));
    }
    WEFT_RETURN_IF_ERROR(SleepWithin(pause, until));
  }
}

void AllowDescriptors(int count) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= static_cast<rlim_t>(count)) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, static_cast<rlim_t>(count));
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Returns the connections by rank. All ranks call it with the same store, through which they exchange addresses.
absl::StatusOr<std::vector<TcpConnection>> ConnectAll(const Rendezvous& rendezvous, StoreClient& store,
                                                      int64_t deadline) {
  const int rank = rendezvous.process.rank;
  const auto left = [&] { return std::chrono::nanoseconds(std::max<int64_t>(0, deadline - MonotonicNanoseconds())); };
  int64_t next_check = 0;
  const Until until(deadline, [&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(NotStopped(rendezvous));
    if (MonotonicNanoseconds() < next_check) return absl::OkStatus();
    next_check = MonotonicNanoseconds() + kCheckNs;
    return store.Check();
  });
  WEFT_ASSIGN_OR_RETURN(SocketAddress own, store.local_address());
  own.set_port(0);
  WEFT_ASSIGN_OR_RETURN(Socket listener, ListenOn(own));
  WEFT_ASSIGN_OR_RETURN(own, LocalAddress(listener));
  Accepting accepting(std::move(listener), rendezvous);
  WEFT_RETURN_IF_ERROR(store.Set(AddressKey(rank), absl::StrCat(own.Host(), " ", own.port(), " ", getpid())));

  std::vector<TcpConnection> lower(rank);
  for (int peer = 0; peer < rank; ++peer) {
    WEFT_ASSIGN_OR_RETURN(const std::string address, store.Wait(AddressKey(peer), left()));
    WEFT_ASSIGN_OR_RETURN(lower[peer], ConnectToRank(rendezvous, peer, address, until));
  }
  WEFT_RETURN_IF_ERROR(store.Barrier("tcp connections", left()));
  std::vector<TcpConnection> connections = accepting.Finish();
  for (int peer = 0; peer < rank; ++peer) connections[peer] = std::move(lower[peer]);
  return connections;
}

}  // namespace

absl::StatusOr<std::vector<TcpConnection>> ConnectMesh(const Rendezvous& rendezvous) {
  const auto [bootstrap, rank, size, local_rank] = rendezvous.process;
  const int64_t deadline = MonotonicNanoseconds() + rendezvous.timeout.count();
  // Rank 0 has two connections per rank, and maybe some of other programs.
  AllowDescriptors(2 * size + 600);
  const StoreOptions options = {.size = size, .secret = rendezvous.secret};
  std::unique_ptr<StoreServer> server;
  if (rank == 0) {
    WEFT_ASSIGN_OR_RETURN(server, ServeStore(rendezvous, options));
  }
  absl::StatusOr<std::unique_ptr<StoreClient>> store =
      StoreClient::Connect(rendezvous.host, rendezvous.port, rank, options, rendezvous.timeout,
                           [&rendezvous] { return NotStopped(rendezvous); });
  if (!store.ok()) {
    // If this rank was stopped before it reached the store, rank 0 or the local launcher reports it.
    const bool quiet = absl::IsCancelled(store.status()) && bootstrap == Bootstrap::kLocal && rank > 0;
    return quiet ? AsReportedRemotely(store.status()) : store.status();
  }
  absl::StatusOr<std::vector<TcpConnection>> connections = ConnectAll(rendezvous, **store, deadline);
  if (connections.ok()) {
    // The store runs until all ranks know that the barrier is over. They leave it then.
    store->reset();
    if (server != nullptr) WEFT_RETURN_IF_ERROR(server->WaitForAll(std::chrono::seconds(10)));
    return connections;
  }
  absl::Status failure = connections.status();
  if (!ReportedRemotely(failure)) {
    // Fail reports the failure to the other ranks, so none waits for this rank any more. If the job was stopped, the
    // error names the ranks that never came.
    if (absl::IsCancelled(failure) && server != nullptr && !server->Absent().empty()) {
      failure = absl::CancelledError(absl::StrCat(failure.message(), ": ", NameRanks(server->Absent()), " of ", size,
                                                  " did not connect to ", server->address().ToString()));
    }
    if (const absl::Status told = (*store)->Fail(failure); ReportedRemotely(told)) failure = told;
  }
  store->reset();
  if (server == nullptr) return failure;
  // A rank that comes a little later would wait for a store that no longer exists. If the job is stopped or its time is
  // over, no other rank is expected.
  if (absl::IsCancelled(failure) || absl::IsDeadlineExceeded(failure)) {
    server->WaitForThoseHere(kLinger);
  } else {
    WaitForLatecomers(rendezvous, *server);
  }
  return failure;
}

}  // namespace weft::exec
