#include "executor/job/tcp_socket.h"

#include <unistd.h>

#include <string>
#include <thread>

#include "executor/platform/monotonic_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

int64_t In(int64_t milliseconds) { return MonotonicNanoseconds() + milliseconds * 1000000; }

Socket Listener() { return *ListenOn((*ResolveHost("127.0.0.1", 0))[0]); }

TEST(TcpSocketTest, BytesArriveWholeAndInOrder) {
  const Socket listener = Listener();
  const SocketAddress address = *LocalAddress(listener);
  std::string data(5000000, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 + i / 251);
  std::thread sender([&] {
    const auto socket = ConnectTo(address, In(10000));
    ASSERT_TRUE(socket.ok()) << socket.status();
    EXPECT_TRUE(SendAll(*socket, data, In(10000)).ok());
  });
  absl::StatusOr<Socket> socket = AcceptFrom(listener);
  while (absl::IsInvalidArgument(socket.status())) socket = AcceptFrom(listener);
  ASSERT_TRUE(socket.ok());
  std::string received(data.size(), '\0');
  EXPECT_TRUE(RecvAll(*socket, received.data(), received.size(), In(10000)).ok());
  EXPECT_TRUE(received == data);
  sender.join();
  char more;
  EXPECT_TRUE(absl::IsUnavailable(RecvAll(*socket, &more, 1, In(10000))));
}

TEST(TcpSocketTest, DeadlinesHold) {
  const Socket listener = Listener();
  const auto socket = ConnectTo(*LocalAddress(listener), In(10000));
  ASSERT_TRUE(socket.ok());
  char byte;
  const int64_t start = MonotonicNanoseconds();
  EXPECT_TRUE(absl::IsDeadlineExceeded(RecvAll(*socket, &byte, 1, In(50))));
  // The other side does not read, so SendAll has to wait once the system's buffers are full.
  EXPECT_TRUE(absl::IsDeadlineExceeded(SendAll(*socket, std::string(64 << 20, 'x'), In(50))));
  EXPECT_LT(MonotonicNanoseconds() - start, int64_t{5} * 1000 * 1000 * 1000);
}

TEST(TcpSocketTest, NamesAddressesThatCannotBeListenedOn) {
  const Socket listener = Listener();
  const SocketAddress taken = *LocalAddress(listener);
  EXPECT_EQ(ListenOn(taken).status().message(), "cannot listen on " + taken.ToString() + ": the port is taken");
  // 192.0.2.1 is no address of this machine: its block is reserved for documentation (RFC 5737).
  EXPECT_EQ(ListenOn((*ResolveHost("192.0.2.1", 29500))[0]).status().message(),
            "cannot listen on 192.0.2.1:29500: it is no address of this machine");
}

TEST(TcpSocketTest, NobodyListens) {
  SocketAddress address;
  {
    const Socket listener = Listener();
    address = *LocalAddress(listener);
  }
  EXPECT_TRUE(absl::IsUnavailable(ConnectTo(address, In(10000)).status()));
}

TEST(TcpSocketTest, AddressesAsText) {
  SocketAddress four = (*ResolveHost("127.0.0.1", 29500))[0];
  EXPECT_EQ(four.ToString(), "127.0.0.1:29500");
  four.set_port(80);
  EXPECT_EQ(four.port(), 80);
  EXPECT_EQ((*ResolveHost("::1", 29500))[0].ToString(), "[::1]:29500");
  EXPECT_THAT(std::string(ResolveHost("no host of this name", 1).status().message()),
              HasSubstr("cannot find host 'no host of this name'"));
}

TEST(TcpSocketTest, OnlyListenersAreAdopted) {
  EXPECT_FALSE(AdoptListener(-1).ok());
  EXPECT_FALSE(AdoptListener(0).ok());
  Socket listener = Listener();
  const SocketAddress address = *LocalAddress(listener);
  const auto adopted = AdoptListener(listener.Release());
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  EXPECT_EQ(LocalAddress(*adopted)->ToString(), address.ToString());
}

}  // namespace
}  // namespace weft::exec
