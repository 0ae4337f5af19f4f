#include <deque>
#include <random>
#include <thread>

#include "executor/interface/transport.h"
#include "executor/interpreter/control.h"
#include "executor/transports/testing/conformance_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

std::vector<std::unique_ptr<Endpoint>> Open(int ranks) {
  auto endpoints = (*FindTransport("inproc"))->open(ranks);
  EXPECT_TRUE(endpoints.ok()) << endpoints.status();
  return *std::move(endpoints);
}

TEST(InprocTest, Conforms) {
  for (int ranks : {2, 3, 5}) {
    ExpectConforms(Open(ranks), /*big=*/ranks < 5);
  }
}

TEST(InprocTest, OneOfRacingAbortsWins) {
  for (int round = 0; round < 50; ++round) ExpectOneOfRacingAbortsWins(Open(4));
}

// Buffers are freed as soon as a rank learns of an abort, while its partner may be in the middle of a copy. Large
// buffers then go back to the system, so a copy that went on would crash. tsan sees it in any case.
TEST(InprocTest, NothingTouchesBuffersAfterAnAbort) {
  constexpr int64_t kBytes = 16 << 20;
  const uint32_t seed = 77;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  int cut_short = 0;
  for (int round = 0; round < 30; ++round) {
    const auto endpoints = Open(3);
    const int pause_us = static_cast<int>(random() % 10000);
    std::vector<absl::Status> results(3);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        const auto timeout = std::chrono::seconds(60);
        for (int i = 0; i < 1000 && results[rank].ok(); ++i) {
          std::vector<char> buffer(kBytes);
          results[rank] = rank == i % 2 ? SendNow(*endpoints[rank], 1 - rank, buffer.data(), kBytes, timeout)
                                        : RecvNow(*endpoints[rank], 1 - rank, buffer.data(), kBytes, timeout);
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
    EXPECT_TRUE(endpoints[2]->Abort(absl::AbortedError("enough")));
    for (std::thread& thread : threads) thread.join();
    for (int rank = 0; rank < 2; ++rank) cut_short += results[rank].message() == "enough";
  }
  EXPECT_EQ(cut_short, 60);
}

TEST(ControlTest, AMissingRankAtABarrierEndsTheJob) {
  const auto endpoints = Open(3);
  std::vector<absl::Status> results(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      results[rank] = Barrier(*endpoints[rank], rank == 0 ? std::chrono::milliseconds(50) : std::chrono::seconds(60));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : results) {
    EXPECT_EQ(status.message(), "rank 0: waited for rank 2 at a barrier for 0.05 s");
  }
  // Rank 0 must report the abort, though rank 1 already knows of it from the barrier.
  EXPECT_FALSE(endpoints[1]->Abort(results[1]));
  EXPECT_TRUE(endpoints[0]->Abort(results[0]));
  // A rank that comes late posts no transfers any more.
  EXPECT_EQ(Barrier(*endpoints[2], std::chrono::seconds(60)), results[0]);
}

TEST(InprocTest, DifferentSizesAbortTheJob) {
  const auto endpoints = Open(2);
  std::deque<Transfer> transfers(2);
  char bytes[8] = {};
  transfers[0].data = transfers[1].data = bytes;
  transfers[0].bytes = 8;
  transfers[0].peer = 1;
  transfers[1].bytes = 4;
  transfers[1].peer = 0;
  ASSERT_TRUE(endpoints[0]->PostSend(&transfers[0]).ok());
  const absl::Status status = endpoints[1]->PostRecv(&transfers[1]);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 expects 4 bytes, rank 0 sends 8"));
  EXPECT_EQ(endpoints[0]->Poll().status(), status);
  // Rank 1 found the difference, so rank 1 must report it.
  EXPECT_TRUE(endpoints[1]->Abort(status));
  EXPECT_FALSE(endpoints[0]->Abort(status));
}

TEST(InprocTest, RefusesRanksAndPeersThatDoNotExist) {
  EXPECT_FALSE((*FindTransport("inproc"))->open(0).ok());
  const auto endpoints = Open(2);
  Transfer transfer;
  transfer.peer = 2;
  EXPECT_EQ(endpoints[0]->PostSend(&transfer).code(), absl::StatusCode::kInvalidArgument);
}

TEST(RegistryTest, UnknownNamesListTheKnown) {
  EXPECT_THAT(std::string(FindTransport("pigeons").status().message()), HasSubstr("inproc, loopback, mpi"));
  absl::string_view before;
  for (const TransportEntry& entry : Transports()) {
    EXPECT_LT(before, entry.name);
    before = entry.name;
  }
}

}  // namespace
}  // namespace weft::exec
