// TCP sockets with deadlines. All are non-blocking and closed on exec. Deadlines use the clock of
// MonotonicNanoseconds().
#ifndef WEFT_EXECUTOR_JOB_TCP_SOCKET_H_
#define WEFT_EXECUTOR_JOB_TCP_SOCKET_H_

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::exec {

// How long a call waits: until a deadline, or until `go_on` returns an error. `go_on` is asked every tenth of a second.
struct Until {
  // NOLINTNEXTLINE: a deadline alone is one.
  Until(int64_t deadline_ns) : deadline_ns(deadline_ns) {}
  Until(int64_t deadline_ns, std::function<absl::Status()> go_on) : deadline_ns(deadline_ns), go_on(std::move(go_on)) {}

  absl::Status CheckGoOn() const { return go_on ? go_on() : absl::OkStatus(); }

  int64_t deadline_ns;
  // An error from it ends the wait.
  std::function<absl::Status()> go_on;
};
// Sleeps for `pause`, or until `until` ends. Never returns DeadlineExceeded.
absl::Status SleepWithin(std::chrono::nanoseconds pause, const Until& until);

// A file descriptor that is closed with its owner.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { Close(); }

  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void Close();
  // The owner no longer closes it.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;

  // "127.0.0.1:29500", "[::1]:29500".
  std::string ToString() const;
  // "127.0.0.1", "::1".
  std::string Host() const;
  int port() const;
  void set_port(int port);
};

// Returns the addresses of a host name or of an address as text, including "[::1]". NotFound if the name is not known,
// at least not now.
absl::StatusOr<std::vector<SocketAddress>> ResolveHost(const std::string& host, int port);

// Listens on this address alone; port 0 takes a free port. FailedPrecondition if the address is not this machine's or
// if the port is taken.
absl::StatusOr<Socket> ListenOn(const SocketAddress& address);
// Takes over a socket that the process was given and that is already listening.
absl::StatusOr<Socket> AdoptListener(int fd);
// InvalidArgument if there is no connection to accept; Unavailable for other reasons, which do not matter.
absl::StatusOr<Socket> AcceptFrom(const Socket& listener);
// Unavailable if nobody answers in time.
absl::StatusOr<Socket> ConnectTo(const SocketAddress& address, const Until& until);

absl::StatusOr<SocketAddress> LocalAddress(const Socket& socket);
absl::StatusOr<SocketAddress> PeerAddress(const Socket& socket);

// Makes small messages leave at once, and notices within ten seconds that a machine has vanished.
void SetForMessages(const Socket& socket);

// Transfers all bytes, or returns an error: DeadlineExceeded, or Unavailable if the connection has ended.
absl::Status SendAll(const Socket& socket, absl::string_view bytes, const Until& until);
absl::Status RecvAll(const Socket& socket, char* bytes, size_t count, const Until& until);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_JOB_TCP_SOCKET_H_
