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

// How long a call waits: until a deadline, or until `go_on` returns an error. The waiting call calls `go_on` every
// tenth of a second.
struct Until {
  // NOLINTNEXTLINE: a deadline alone converts to an Until.
  Until(int64_t deadline_ns) : deadline_ns(deadline_ns) {}
  Until(int64_t deadline_ns, std::function<absl::Status()> go_on) : deadline_ns(deadline_ns), go_on(std::move(go_on)) {}

  absl::Status CheckGoOn() const { return go_on ? go_on() : absl::OkStatus(); }

  int64_t deadline_ns;
  // Null if only the deadline ends the wait. An error that it returns ends the wait.
  std::function<absl::Status()> go_on;
};
// Sleeps for `pause`, or until `until` ends. The deadline is no error here: it returns Ok.
absl::Status SleepWithin(std::chrono::nanoseconds pause, const Until& until);

// Owns a file descriptor and closes it when it is destroyed.
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
  // Returns the descriptor, which this object then no longer closes.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;

  // Returns e.g. "127.0.0.1:29500" or "[::1]:29500".
  std::string ToString() const;
  // Returns e.g. "127.0.0.1" or "::1".
  std::string Host() const;
  int port() const;
  void set_port(int port);
};

// Returns the addresses of a host name, or of an address as text, including "[::1]". Returns NotFound if the name is
// not known; it may become known later.
absl::StatusOr<std::vector<SocketAddress>> ResolveHost(const std::string& host, int port);

// Listens on this address alone; port 0 takes a free port. FailedPrecondition if the address is not this machine's or
// if the port is taken.
absl::StatusOr<Socket> ListenOn(const SocketAddress& address);
// Takes ownership of a listening socket that the process inherited as a descriptor.
absl::StatusOr<Socket> AdoptListener(int fd);
// Returns InvalidArgument if no connection waits to be accepted. Other errors are Unavailable; the caller may try
// again.
absl::StatusOr<Socket> AcceptFrom(const Socket& listener);
// Returns Unavailable if the connection fails, and DeadlineExceeded if it is not made before the deadline of `until`.
absl::StatusOr<Socket> ConnectTo(const SocketAddress& address, const Until& until);

absl::StatusOr<SocketAddress> LocalAddress(const Socket& socket);
absl::StatusOr<SocketAddress> PeerAddress(const Socket& socket);

// Sends small messages without delay, and makes the connection fail within ten seconds if the other machine has
// vanished.
void SetForMessages(const Socket& socket);

// Send or receive all bytes. Otherwise return DeadlineExceeded, or Unavailable if the connection has ended.
absl::Status SendAll(const Socket& socket, absl::string_view bytes, const Until& until);
absl::Status RecvAll(const Socket& socket, char* bytes, size_t count, const Until& until);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_JOB_TCP_SOCKET_H_
