#include <deque>
#include <thread>

#include "executor/transport.h"
#include "executor/transports/transport_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

std::vector<std::unique_ptr<Endpoint>> Open(int ranks) {
  auto endpoints = (*FindTransport("inproc"))->open(ranks);
  EXPECT_TRUE(endpoints.ok()) << endpoints.status();
  return *std::move(endpoints);
}

TEST(InprocTest, Conforms) {
  for (int ranks : {2, 3, 5}) {
    const auto endpoints = Open(ranks);
    for (const ConformanceCase& test : ConformanceCases()) {
      if (ranks == 5 && test.name == "big messages") continue;
      std::vector<absl::Status> results(ranks);
      std::vector<std::thread> threads;
      for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] { results[rank] = test.run(*endpoints[rank]); });
      }
      for (std::thread& thread : threads) thread.join();
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_TRUE(results[rank].ok()) << test.name << ", rank " << rank << " of " << ranks << ": " << results[rank];
      }
    }
  }
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
}

TEST(InprocTest, RefusesRanksAndPeersThatDoNotExist) {
  EXPECT_FALSE((*FindTransport("inproc"))->open(0).ok());
  const auto endpoints = Open(2);
  Transfer transfer;
  transfer.peer = 2;
  EXPECT_EQ(endpoints[0]->PostSend(&transfer).code(), absl::StatusCode::kInvalidArgument);
}

TEST(RegistryTest, UnknownNamesListTheKnown) {
  EXPECT_THAT(std::string(FindTransport("tcp").status().message()), HasSubstr("inproc, mpi"));
  absl::string_view before;
  for (const TransportEntry& entry : Transports()) {
    EXPECT_LT(before, entry.name);
    before = entry.name;
  }
}

}  // namespace
}  // namespace weft
