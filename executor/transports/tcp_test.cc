// Ranks are threads of the test here, each with its own endpoint. tests/e2e/launch_test.sh runs processes.
#include "executor/transports/tcp.h"

#include <unistd.h>

#include <random>
#include <thread>

#include "executor/interface/transport.h"
#include "executor/interpreter/control.h"
#include "executor/testing/job_testing.h"
#include "executor/transports/tcp_frame.h"
#include "executor/transports/tcp_mesh.h"
#include "executor/transports/testing/conformance_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

// Runs `each` for all ranks at once.
template <typename Each>
void InThreads(int ranks, const Each& each) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&, rank] { each(rank); });
  for (std::thread& thread : threads) thread.join();
}

std::vector<std::unique_ptr<Endpoint>> Open(int ranks) {
  const std::vector<Rendezvous> job = LocalJob(ranks);
  std::vector<std::unique_ptr<Endpoint>> endpoints(ranks);
  InThreads(ranks, [&](int rank) {
    auto endpoint = OpenTcpEndpoint(job[rank], /*own_process=*/false);
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    endpoints[rank] = *std::move(endpoint);
  });
  return endpoints;
}

TEST(TcpTest, Conforms) {
  for (int ranks : {2, 3, 5}) {
    ExpectConforms(Open(ranks), /*big=*/ranks < 5);
  }
}

TEST(TcpTest, OneOfRacingAbortsWins) {
  for (int round = 0; round < 30; ++round) ExpectOneOfRacingAbortsWins(Open(4));
}

// As in inproc_test: buffers are freed as soon as a rank learns of an abort.
TEST(TcpTest, NothingTouchesBuffersAfterAnAbort) {
  constexpr int64_t kBytes = 16 << 20;
  const uint32_t seed = 77;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    const auto endpoints = Open(3);
    const int pause_us = static_cast<int>(random() % 10000);
    std::vector<absl::Status> results(3);
    InThreads(3, [&](int rank) {
      if (rank == 2) {
        std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
        EXPECT_TRUE(endpoints[2]->Abort(absl::AbortedError("enough")));
        return;
      }
      const auto timeout = std::chrono::seconds(60);
      for (int i = 0; i < 1000 && results[rank].ok(); ++i) {
        std::vector<char> buffer(kBytes);
        results[rank] = rank == i % 2 ? SendNow(*endpoints[rank], 1 - rank, buffer.data(), kBytes, timeout)
                                      : RecvNow(*endpoints[rank], 1 - rank, buffer.data(), kBytes, timeout);
      }
    });
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(results[rank].message(), "enough");
  }
}

TEST(TcpTest, DifferentSizesAreNamed) {
  const auto endpoints = Open(2);
  InThreads(2, [&](int rank) {
    std::deque<Transfer> transfers(1);
    char bytes[8];
    transfers[0].data = bytes;
    transfers[0].bytes = rank == 0 ? 8 : 4;
    transfers[0].peer = 1 - rank;
    transfers[0].channel = 12;
    absl::Status status = rank == 0 ? endpoints[0]->PostSend(&transfers[0]) : endpoints[1]->PostRecv(&transfers[0]);
    if (status.ok()) status = WaitUntilDone(*endpoints[rank], transfers);
    EXPECT_EQ(status.message(), "channel 12: rank 0 sends 8 bytes, rank 1 expects 4");
  });
  // Rank 0 must report the error: its abort won.
  EXPECT_TRUE(endpoints[0]->Abort(absl::AbortedError("later")));
  EXPECT_FALSE(endpoints[1]->Abort(absl::AbortedError("later")));
}

TEST(TcpTest, MessagesToOneself) {
  const auto endpoints = Open(1);
  char from[5] = "word", to[5] = "";
  std::deque<Transfer> transfers(2);
  transfers[0].data = from;
  transfers[1].data = to;
  transfers[0].bytes = transfers[1].bytes = 5;
  ASSERT_TRUE(endpoints[0]->PostSend(&transfers[0]).ok());
  EXPECT_FALSE(transfers[0].done);
  ASSERT_TRUE(endpoints[0]->PostRecv(&transfers[1]).ok());
  EXPECT_TRUE(transfers[0].done && transfers[1].done);
  EXPECT_STREQ(to, "word");
}

// A rank whose connection breaks is dead. A rank that has ended in order is not, until somebody waits for it.
TEST(TcpTest, EndedRanksAreNamedIfTheyAreMissed) {
  auto endpoints = Open(3);
  endpoints[2].reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  Endpoint::LastNote note;
  EXPECT_TRUE(endpoints[0]->CheckPeers(&note).ok());
  Transfer transfer;
  char byte;
  transfer.data = &byte;
  transfer.bytes = 1;
  transfer.peer = 2;
  ASSERT_TRUE(endpoints[0]->PostRecv(&transfer).ok());
  EXPECT_EQ(endpoints[0]->CheckPeers(&note).message(), "rank 2 has ended, but rank 0 still waits for it");
  EXPECT_EQ(note.rank, 2);
  EXPECT_TRUE(endpoints[1]->CheckPeers(&note).ok());
}

TEST(TcpTest, ADeadRankIsNoticedWithItsLastNote) {
  const std::vector<Rendezvous> job = LocalJob(3);
  std::vector<std::unique_ptr<Endpoint>> endpoints(2);
  std::vector<TcpConnection> dead;
  InThreads(3, [&](int rank) {
    if (rank == 2) {
      // This rank has no endpoint: it sends what the test chooses and breaks off.
      auto connections = ConnectMesh(job[2]);
      ASSERT_TRUE(connections.ok()) << connections.status();
      dead = *std::move(connections);
      return;
    }
    auto endpoint = OpenTcpEndpoint(job[rank], /*own_process=*/false);
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    endpoints[rank] = *std::move(endpoint);
  });
  std::string frame;
  AppendFrame(&frame, {.kind = FrameKind::kNote, .action = 5, .step = 3});
  ASSERT_TRUE(SendAll(dead[0].socket, frame, MonotonicNanoseconds() + int64_t{10} * 1000 * 1000 * 1000).ok());
  Endpoint::LastNote note;
  EXPECT_TRUE(endpoints[0]->CheckPeers(&note).ok());
  dead.clear();
  absl::Status status;
  for (int i = 0; i < 500 && status.ok(); ++i) {
    (void)endpoints[0]->WaitForProgress(std::chrono::milliseconds(10));
    status = endpoints[0]->CheckPeers(&note);
  }
  EXPECT_EQ(status.message(), absl::StrCat("rank 2 died (process ", getpid(),
                                           " at 127.0.0.1; step and action are the last ones reported)"));
  EXPECT_EQ(note.rank, 2);
  EXPECT_EQ(note.step, 3);
  EXPECT_EQ(note.action, 5);
  // Rank 0 must report the death; rank 1 gives rank 0 the time to do so.
  EXPECT_TRUE(endpoints[1]->CheckPeers(&note).ok());
}

TEST(TcpTest, BytesThatAreNoFramesEndTheJob) {
  const std::vector<Rendezvous> job = LocalJob(2);
  std::unique_ptr<Endpoint> endpoint;
  std::vector<TcpConnection> other;
  InThreads(2, [&](int rank) {
    if (rank == 1) {
      other = *ConnectMesh(job[1]);
    } else {
      endpoint = *OpenTcpEndpoint(job[0], /*own_process=*/false);
    }
  });
  ASSERT_TRUE(
      SendAll(other[0].socket, std::string(100, 'x'), MonotonicNanoseconds() + int64_t{10} * 1000 * 1000 * 1000).ok());
  absl::Status status;
  for (int i = 0; i < 500 && status.ok(); ++i) {
    status = endpoint->WaitForProgress(std::chrono::milliseconds(10)).status();
  }
  EXPECT_EQ(status.message(), "rank 1 sent bytes that are not a frame");
}

TEST(TcpTest, ARankThatNeverComesIsNamed) {
  std::vector<Rendezvous> job = LocalJob(3);
  for (Rendezvous& each : job) each.timeout = std::chrono::milliseconds(300);
  InThreads(2, [&](int rank) {
    const absl::Status status = OpenTcpEndpoint(job[rank], /*own_process=*/false).status();
    EXPECT_FALSE(status.ok());
    if (rank > 0) return;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 2 of 3 did not connect to 127.0.0.1:"));
  });
}

TEST(TcpTest, AWrongSecretIsRefused) {
  std::vector<Rendezvous> job = LocalJob(2);
  job[0].timeout = std::chrono::milliseconds(500);
  job[1].secret = "the secret of another";
  InThreads(2, [&](int rank) {
    const absl::Status status = OpenTcpEndpoint(job[rank], /*own_process=*/false).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(rank == 0 ? "rank 1 of 2 did not connect"
                                                                   : "refuses the secret of rank 1 (WEFT_JOB_SECRET)"));
  });
}

}  // namespace
}  // namespace weft::exec
