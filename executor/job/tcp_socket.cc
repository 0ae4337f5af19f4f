#include "executor/job/tcp_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "executor/platform/monotonic_clock.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

constexpr int kBacklog = 1024;
constexpr int kSliceMs = 100;

std::string Reason() { return std::strerror(errno); }

// Waits until the socket can be read from or written to; DeadlineExceeded at the deadline.
absl::Status WaitFor(const Socket& socket, short events, const Until& until) {
  for (;;) {
    WEFT_RETURN_IF_ERROR(until.CheckGoOn());
    const int64_t left = until.deadline_ns - MonotonicNanoseconds();
    if (left <= 0) return absl::DeadlineExceededError("no answer in time");
    pollfd entry = {.fd = socket.fd(), .events = events, .revents = 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::min<int64_t>(left / 1000000 + 1, kSliceMs)));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return absl::UnavailableError(Reason());
  }
}

}  // namespace

absl::Status SleepWithin(std::chrono::nanoseconds pause, const Until& until) {
  const int64_t end = std::min(until.deadline_ns, MonotonicNanoseconds() + pause.count());
  for (;;) {
    WEFT_RETURN_IF_ERROR(until.CheckGoOn());
    const int64_t left = end - MonotonicNanoseconds();
    if (left <= 0) return absl::OkStatus();
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min<int64_t>(left, int64_t{kSliceMs} * 1000000)));
  }
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Socket::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

std::string SocketAddress::Host() const {
  char text[INET6_ADDRSTRLEN] = "?";
  if (storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(storage).sin_addr, text, sizeof text);
  } else if (storage.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr, text, sizeof text);
  }
  return text;
}

int SocketAddress::port() const {
  return ntohs(storage.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(storage).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

void SocketAddress::set_port(int port) {
  const auto bits = htons(static_cast<uint16_t>(port));
  if (storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(storage).sin6_port = bits;
  } else {
    reinterpret_cast<sockaddr_in&>(storage).sin_port = bits;
  }
}

std::string SocketAddress::ToString() const {
  return storage.ss_family == AF_INET6 ? absl::StrCat("[", Host(), "]:", port()) : absl::StrCat(Host(), ":", port());
}

absl::StatusOr<std::vector<SocketAddress>> ResolveHost(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string plain = brackets ? host.substr(1, host.size() - 2) : host;
  const int rc = getaddrinfo(plain.c_str(), absl::StrCat(port).c_str(), &hints, &list);
  if (rc != 0) {
    return absl::NotFoundError(absl::StrCat("cannot find host '", host, "': ", gai_strerror(rc)));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
  }
  freeaddrinfo(list);
  if (addresses.empty()) return absl::NotFoundError(absl::StrCat("host '", host, "' has no address"));
  return addresses;
}

absl::StatusOr<Socket> ListenOn(const SocketAddress& address) {
  Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.open()) return absl::UnavailableError(absl::StrCat("cannot make a socket: ", Reason()));
  const int on = 1;
  // A port on which an earlier job listened is free again at once.
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0 ||
      listen(socket.fd(), kBacklog) != 0) {
    const char* why = errno == EADDRINUSE      ? "the port is taken"
                      : errno == EADDRNOTAVAIL ? "it is no address of this machine"
                                               : std::strerror(errno);
    return absl::FailedPreconditionError(absl::StrCat("cannot listen on ", address.ToString(), ": ", why));
  }
  return socket;
}

absl::StatusOr<Socket> AdoptListener(int fd) {
  int listens = 0;
  socklen_t length = sizeof listens;
  if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) {
    return absl::InvalidArgumentError(absl::StrCat("file descriptor ", fd, " is no listening socket"));
  }
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  return Socket(fd);
}

absl::StatusOr<Socket> AcceptFrom(const Socket& listener) {
  const int fd = accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) return Socket(fd);
  if (errno == EAGAIN || errno == EWOULDBLOCK) return absl::InvalidArgumentError("nobody to accept");
  return absl::UnavailableError(Reason());
}

absl::StatusOr<Socket> ConnectTo(const SocketAddress& address, const Until& until) {
  Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.open()) return absl::UnavailableError(absl::StrCat("cannot make a socket: ", Reason()));
  if (connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0) {
    if (errno != EINPROGRESS) return absl::UnavailableError(Reason());
    WEFT_RETURN_IF_ERROR(WaitFor(socket, POLLOUT, until));
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return absl::UnavailableError(std::strerror(error));
  }
  // If the port is in the range that the system assigns to connecting sockets, the socket may be connected to itself.
  const auto local = LocalAddress(socket);
  if (local.ok() && local->ToString() == address.ToString()) return absl::UnavailableError("nobody listens");
  return socket;
}

absl::StatusOr<SocketAddress> LocalAddress(const Socket& socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) {
    return absl::UnavailableError(Reason());
  }
  return address;
}

absl::StatusOr<SocketAddress> PeerAddress(const Socket& socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) {
    return absl::UnavailableError(Reason());
  }
  return address;
}

void SetForMessages(const Socket& socket) {
  const auto set = [&](int level, int option, int value) {
    setsockopt(socket.fd(), level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 3);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 5);
  // Milliseconds that bytes may stay unacknowledged.
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 8000);
}

absl::Status SendAll(const Socket& socket, absl::string_view bytes, const Until& until) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      WEFT_RETURN_IF_ERROR(WaitFor(socket, POLLOUT, until));
    } else if (errno != EINTR) {
      return absl::UnavailableError(Reason());
    }
  }
  return absl::OkStatus();
}

absl::Status RecvAll(const Socket& socket, char* bytes, size_t count, const Until& until) {
  while (count > 0) {
    const ssize_t got = recv(socket.fd(), bytes, count, 0);
    if (got > 0) {
      bytes += got;
      count -= got;
    } else if (got == 0) {
      return absl::UnavailableError("the connection was closed");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      WEFT_RETURN_IF_ERROR(WaitFor(socket, POLLIN, until));
    } else if (errno != EINTR) {
      return absl::UnavailableError(Reason());
    }
  }
  return absl::OkStatus();
}

}  // namespace weft::exec
