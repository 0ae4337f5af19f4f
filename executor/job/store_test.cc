#include "executor/job/store.h"

#include <atomic>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/job/handshake.h"
#include "executor/job/reported_remotely.h"
#include "executor/platform/monotonic_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

StoreOptions Options(int size, milliseconds patience = seconds(10)) {
  return {.size = size, .secret = "the secret of the job", .patience = patience};
}

std::unique_ptr<StoreServer> Serve(const StoreOptions& options) {
  auto server = StoreServer::Listen("127.0.0.1", 0, options);
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

absl::StatusOr<std::unique_ptr<StoreClient>> Join(const StoreServer& server, int rank, const StoreOptions& options,
                                                  milliseconds timeout = seconds(10)) {
  return StoreClient::Connect("127.0.0.1", server.address().port(), rank, options, timeout);
}

// Returns a connection that has passed the handshake, so that a test can send any bytes on it.
Socket RawClient(const StoreServer& server, int rank, const StoreOptions& options) {
  const int64_t deadline = MonotonicNanoseconds() + int64_t{10} * 1000 * 1000 * 1000;
  Socket socket = *ConnectTo(server.address(), deadline);
  EXPECT_TRUE(ProveToServer(socket, "the server", options.secret, Purpose::kStore, rank, options.size, deadline).ok());
  return socket;
}

TEST(StoreTest, SetGetWaitAndBarrier) {
  const StoreOptions options = Options(4);
  const auto server = Serve(options);
  std::vector<std::thread> ranks;
  std::atomic<int> before{0};
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto client = Join(*server, rank, options);
      ASSERT_TRUE(client.ok()) << client.status();
      EXPECT_TRUE(absl::IsNotFound((*client)->Get("nothing").status()));
      std::this_thread::sleep_for(milliseconds(10 * rank));
      ASSERT_TRUE((*client)->Set(absl::StrCat("rank ", rank), std::string(rank * 100000, 'v')).ok());
      for (int other = 0; other < 4; ++other) {
        const auto value = (*client)->Wait(absl::StrCat("rank ", other), seconds(10));
        ASSERT_TRUE(value.ok()) << value.status();
        EXPECT_EQ(*value, std::string(other * 100000, 'v'));
      }
      for (int round = 1; round <= 20; ++round) {
        ++before;
        ASSERT_TRUE((*client)->Barrier(absl::StrCat("round ", round), seconds(10)).ok());
        EXPECT_GE(before, 4 * round);
      }
      EXPECT_THAT(std::string((*client)->Barrier("round 1", seconds(10)).message()), HasSubstr("second time"));
    });
  }
  for (std::thread& thread : ranks) thread.join();
}

// The server listens on the address that it was given, and on no other address of this machine.
TEST(StoreTest, ServesOneAddressOnly) {
  const auto server = StoreServer::Listen("127.0.0.2", 0, Options(1));
  ASSERT_TRUE(server.ok()) << server.status();
  const int64_t deadline = MonotonicNanoseconds() + int64_t{10} * 1000 * 1000 * 1000;
  const SocketAddress own = (*server)->address();
  EXPECT_EQ(own.Host(), "127.0.0.2");
  EXPECT_TRUE(ConnectTo(own, deadline).ok());
  EXPECT_TRUE(absl::IsUnavailable(ConnectTo((*ResolveHost("127.0.0.1", own.port()))[0], deadline).status()));
  // If it cannot listen on the address, the error names the address and the reason.
  EXPECT_THAT(
      std::string(StoreServer::Listen("192.0.2.1", 29500, Options(1)).status().message()),
      HasSubstr("MASTER_ADDR=192.0.2.1, MASTER_PORT=29500: cannot listen on 192.0.2.1:29500: it is no address"));
  EXPECT_THAT(std::string(StoreServer::Listen("no host of this name", 29500, Options(1)).status().message()),
              HasSubstr("MASTER_ADDR=no host of this name, MASTER_PORT=29500: cannot find host"));
}

TEST(StoreTest, ClientsMayComeBeforeTheServer) {
  const StoreOptions options = Options(1);
  int port = 0;
  {
    port = Serve(options)->address().port();
  }
  std::thread late([&] {
    const auto client = StoreClient::Connect("127.0.0.1", port, 0, options, seconds(20));
    EXPECT_TRUE(client.ok()) << client.status();
  });
  std::this_thread::sleep_for(milliseconds(100));
  const auto server = StoreServer::Listen("127.0.0.1", port, options);
  EXPECT_TRUE(server.ok()) << server.status();
  late.join();
}

TEST(StoreTest, AWrongSecretIsRefusedAtOnce) {
  const auto server = Serve(Options(2));
  StoreOptions wrong = Options(2);
  wrong.secret = "the secret of another job";
  const absl::Status status = Join(*server, 1, wrong).status();
  EXPECT_EQ(status.message(),
            absl::StrCat("the store at 127.0.0.1:", server->address().port(),
                         " refuses the secret of rank 1 (WEFT_JOB_SECRET): the job has another secret"));
}

TEST(StoreTest, ARankThatNeverComesIsNamed) {
  const StoreOptions options = Options(4);
  const auto server = Serve(options);
  const auto zero = Join(*server, 0, options), two = Join(*server, 2, options);
  ASSERT_TRUE(zero.ok() && two.ok());
  EXPECT_EQ(
      (*zero)->Barrier("start", milliseconds(100)).message(),
      absl::StrCat("ranks 1 and 3 of 4 did not connect to 127.0.0.1:", server->address().port(), " within 0.1 s"));
  EXPECT_THAT(std::string((*two)->Wait("of rank 3", milliseconds(50)).status().message()),
              HasSubstr("ranks 1 and 3 of 4 did not connect"));
  const auto one = Join(*server, 1, options), three = Join(*server, 3, options);
  ASSERT_TRUE(one.ok() && three.ok());
  EXPECT_EQ((*three)->Barrier("later", milliseconds(50)).message(),
            "ranks 0, 1 and 2 did not reach 'later' within 0.05 s");
  EXPECT_EQ((*three)->Wait("a key", milliseconds(50)).status().message(), "nobody has set 'a key' within 0.05 s");
}

TEST(StoreTest, NobodyServes) {
  const StoreOptions options = Options(2);
  int port = 0;
  {
    port = Serve(options)->address().port();
  }
  EXPECT_THAT(std::string(StoreClient::Connect("127.0.0.1", port, 1, options, milliseconds(100)).status().message()),
              AllOf(HasSubstr(absl::StrCat("rank 1: no store at MASTER_ADDR=127.0.0.1, port ", port, " within 0.1 s")),
                    HasSubstr(absl::StrCat("tried 127.0.0.1:", port, ")"))));
}

TEST(StoreTest, ASecondProcessOfARankIsRefused) {
  const StoreOptions options = Options(2);
  const auto server = Serve(options);
  auto first = Join(*server, 1, options);
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(std::string(Join(*server, 1, options).status().message()),
              HasSubstr("refuses rank 1: rank 1 is connected already: two processes of the job have the same RANK"));
  // The first client is not disturbed.
  EXPECT_TRUE((*first)->Set("key", "value").ok());
}

TEST(StoreTest, ALostRankEndsTheWaits) {
  const StoreOptions options = Options(3);
  const auto server = Serve(options);
  const auto zero = Join(*server, 0, options);
  ASSERT_TRUE(zero.ok());
  Socket one = RawClient(*server, 1, options);
  std::thread dies([&] {
    std::this_thread::sleep_for(milliseconds(50));
    one.Close();
  });
  const int64_t start = MonotonicNanoseconds();
  EXPECT_EQ((*zero)->Barrier("start", seconds(60)).message(),
            "rank 1 was lost while the job was starting: its connection was closed");
  dies.join();
  EXPECT_LT(MonotonicNanoseconds() - start, int64_t{10} * 1000 * 1000 * 1000);
}

// One rank reports why the job has failed. All other ranks get the failure as an error: in requests that wait, in new
// requests, and if they connect later.
TEST(StoreTest, AFailureEndsTheJobForAll) {
  const StoreOptions options = Options(5);
  const auto server = Serve(options);
  const auto zero = Join(*server, 0, options), one = Join(*server, 1, options), two = Join(*server, 2, options);
  ASSERT_TRUE(zero.ok() && one.ok() && two.ok());
  EXPECT_TRUE((*one)->Check().ok());
  const absl::Status why = absl::NotFoundError("rank 2: data.bin: No such file");
  const int64_t start = MonotonicNanoseconds();
  std::thread waits([&] {
    const absl::Status status = (*zero)->Barrier("start", seconds(60));
    EXPECT_TRUE(absl::IsNotFound(status));
    EXPECT_EQ(status.message(), why.message());
    EXPECT_TRUE(ReportedRemotely(status));
  });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_TRUE((*two)->Fail(why).ok());
  waits.join();
  // The second rank to fail does not report it.
  const absl::Status second = (*one)->Fail(absl::InternalError("another"));
  EXPECT_EQ(second.message(), why.message());
  EXPECT_TRUE(ReportedRemotely(second));
  EXPECT_EQ((*one)->Check().message(), why.message());
  EXPECT_EQ((*one)->Get("key").status().message(), why.message());
  const auto late = Join(*server, 3, options);
  ASSERT_TRUE(late.ok());
  EXPECT_TRUE(ReportedRemotely((*late)->Set("key", "value")));
  EXPECT_THAT(server->Absent(), testing::ElementsAre(4));
  EXPECT_LT(MonotonicNanoseconds() - start, int64_t{10} * 1000 * 1000 * 1000);
}

// If a rank's connection is lost, rank 0 reports it in that rank's place.
TEST(StoreTest, RankZeroReportsALostRank) {
  const StoreOptions options = Options(3);
  const auto server = Serve(options);
  const auto zero = Join(*server, 0, options), one = Join(*server, 1, options);
  ASSERT_TRUE(zero.ok() && one.ok());
  {
    const Socket two = RawClient(*server, 2, options);
  }
  const absl::Status of_one = (*one)->Barrier("start", seconds(60));
  EXPECT_TRUE(ReportedRemotely(of_one)) << of_one;
  const absl::Status of_zero = (*zero)->Barrier("start", seconds(60));
  EXPECT_FALSE(ReportedRemotely(of_zero));
  EXPECT_EQ(of_zero.message(), of_one.message());
}

// A rank that stops waiting for the others can still report its failure.
TEST(StoreTest, AWaitThatIsGivenUpCanBeTold) {
  const StoreOptions options = Options(2);
  const auto server = Serve(options);
  std::atomic<bool> stop{false};
  const auto zero = StoreClient::Connect("127.0.0.1", server->address().port(), 0, options, seconds(10),
                                         [&] { return stop ? absl::CancelledError("stopped") : absl::OkStatus(); });
  const auto one = Join(*server, 1, options);
  ASSERT_TRUE(zero.ok() && one.ok());
  std::thread stops([&] {
    std::this_thread::sleep_for(milliseconds(50));
    stop = true;
  });
  const int64_t start = MonotonicNanoseconds();
  const absl::Status status = (*zero)->Barrier("start", seconds(60));
  EXPECT_EQ(status, absl::CancelledError("stopped"));
  EXPECT_LT(MonotonicNanoseconds() - start, int64_t{10} * 1000 * 1000 * 1000);
  stops.join();
  EXPECT_TRUE((*zero)->Fail(status).ok());
  const absl::Status told = (*one)->Barrier("start", seconds(60));
  EXPECT_TRUE(absl::IsCancelled(told) && ReportedRemotely(told)) << told;
  // A rank that is asked to stop also stops while it waits for a server that accepts connections but never answers.
  const Socket silent = *ListenOn((*ResolveHost("127.0.0.1", 0))[0]);
  const auto never = StoreClient::Connect("127.0.0.1", LocalAddress(silent)->port(), 1, options, seconds(60),
                                          [] { return absl::CancelledError("stopped"); });
  EXPECT_TRUE(absl::IsCancelled(never.status())) << never.status();
}

TEST(StoreTest, GarbageOnThePortDisturbsNobody) {
  const StoreOptions options = Options(2);
  const auto server = Serve(options);
  const int64_t deadline = MonotonicNanoseconds() + int64_t{10} * 1000 * 1000 * 1000;
  std::vector<Socket> scanners;
  for (int i = 0; i < 300; ++i) {
    scanners.push_back(*ConnectTo(server->address(), deadline));
    if (i % 2 == 0) (void)SendAll(scanners.back(), std::string(i * 10, static_cast<char>(i)), deadline);
  }
  const auto zero = Join(*server, 0, options), one = Join(*server, 1, options);
  ASSERT_TRUE(zero.ok() && one.ok()) << zero.status() << one.status();
  std::thread other([&] { EXPECT_TRUE((*one)->Barrier("start", seconds(10)).ok()); });
  EXPECT_TRUE((*zero)->Barrier("start", seconds(10)).ok());
  other.join();
}

TEST(StoreTest, OversizeAndDamagedMessagesEndTheirConnection) {
  for (const std::string& bytes : {std::string("\xff\xff\xff\xff", 4), std::string(4, '\0'), WithLength("x"),
                                   WithLength(std::string(100, '\x63'))}) {
    const StoreOptions options = Options(2);
    const auto server = Serve(options);
    const auto zero = Join(*server, 0, options);
    ASSERT_TRUE(zero.ok());
    const Socket one = RawClient(*server, 1, options);
    const int64_t deadline = MonotonicNanoseconds() + int64_t{10} * 1000 * 1000 * 1000;
    ASSERT_TRUE(SendAll(one, bytes, deadline).ok());
    char byte;
    EXPECT_TRUE(absl::IsUnavailable(RecvAll(one, &byte, 1, deadline)));
    EXPECT_THAT(std::string((*zero)->Barrier("start", seconds(10)).message()),
                HasSubstr("rank 1 was lost while the job was starting: it sent a "));
  }
}

TEST(StoreTest, OversizeValuesAreRefusedByTheClient) {
  const StoreOptions options = Options(1);
  const auto server = Serve(options);
  const auto client = Join(*server, 0, options);
  ASSERT_TRUE(client.ok());
  EXPECT_TRUE(absl::IsInvalidArgument((*client)->Set("key", std::string(kMaxStoreMessageBytes, 'v'))));
  EXPECT_TRUE(absl::IsInvalidArgument((*client)->Set(std::string(300, 'k'), "value")));
  EXPECT_TRUE((*client)->Set("key", "value").ok());
  // The store refuses values when it is full.
  absl::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) {
    status = (*client)->Set(absl::StrCat("key ", i), std::string(1000000, 'v'));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST(StoreTest, ASlowClientIsDropped) {
  const StoreOptions options = Options(2, milliseconds(200));
  const auto server = Serve(options);
  const auto zero = Join(*server, 0, options);
  ASSERT_TRUE(zero.ok());
  const Socket one = RawClient(*server, 1, options);
  const int64_t deadline = MonotonicNanoseconds() + int64_t{10} * 1000 * 1000 * 1000;
  ASSERT_TRUE(SendAll(one, std::string("\x10\0", 2), deadline).ok());
  EXPECT_EQ((*zero)->Barrier("start", seconds(10)).message(),
            "rank 1 was lost while the job was starting: a message was not complete within 0.2 s");
}

// IPv6 addresses as launchers write them, with brackets and without.
TEST(StoreTest, VersionSixAddresses) {
  const StoreOptions options = Options(1);
  for (const char* host : {"::1", "[::1]", "localhost"}) {
    const auto server = StoreServer::Listen(host, 0, options);
    if (!server.ok() && !absl::StrContains(server.status().message(), "cannot listen on 127.0.0.1")) {
      // This machine has no IPv6.
      EXPECT_THAT(std::string(server.status().message()), HasSubstr("cannot listen on [::1]:0"));
      continue;
    }
    ASSERT_TRUE(server.ok()) << server.status();
    const auto client = StoreClient::Connect(host, (*server)->address().port(), 0, options, seconds(10));
    EXPECT_TRUE(client.ok()) << client.status();
  }
  const auto first = Serve(options);
  const int port = first->address().port();
  EXPECT_EQ(StoreServer::Listen("127.0.0.1", port, options).status().message(),
            absl::StrCat("rank 0 serves the rendezvous store at MASTER_ADDR=127.0.0.1, MASTER_PORT=", port,
                         ": cannot listen on 127.0.0.1:", port, ": the port is taken"));
}

}  // namespace
}  // namespace weft::exec
