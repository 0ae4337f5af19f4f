#include "executor/transports/loopback.h"

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "executor/interface/device.h"
#include "executor/interface/transport.h"
#include "executor/testing/deferred_device.h"
#include "executor/transports/testing/conformance_job.h"
#include "executor/transports/testing/device_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

std::vector<std::unique_ptr<Endpoint>> Open(int ranks) {
  auto endpoints = (*FindTransport("loopback"))->open(ranks);
  EXPECT_TRUE(endpoints.ok()) << endpoints.status();
  return *std::move(endpoints);
}

// One device stream for everything, four for each rank, and more streams than edges.
TEST(LoopbackTest, ConformsHoweverManyStreamsThereAre) {
  for (const uint64_t seed : {0, 1, 2, 3, 4, 5}) {
    for (const int ranks : {2, 3}) {
      for (const int streams : {1, 4, 24}) {
        SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", ranks, " ranks, ", streams, " streams"));
        const std::unique_ptr<ComputeDevice> device = ConformanceDevice(seed);
        ExpectConforms(Open(ranks), std::vector<ComputeDevice*>(ranks, device.get()), streams,
                       /*big=*/ranks == 2 && streams == 4 && seed < 2);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(LoopbackTest, HostMemoryAndRacingAborts) {
  const auto endpoints = Open(3);
  std::deque<ConformanceRank> under_test;
  for (const auto& endpoint : endpoints) under_test.emplace_back(endpoint.get());
  for (const absl::Status& status : OnAllRanks(3, [&](int rank) { return SizesConform(under_test[rank]); })) {
    EXPECT_TRUE(status.ok()) << status;
  }
  // The abort comes when all ranks are done with their messages, because an abort ends all messages.
  ExpectOneOfRacingAbortsWins(endpoints);
}

// Nobody asks the device about anything, so the transport itself must bound what is enqueued.
TEST(LoopbackTest, RunAheadIsBounded) {
  DeferredDevice device(9);
  const auto endpoints = Open(2);
  const int from = *device.NewStream(ComputeDevice::Priority::kNormal),
            to = *device.NewStream(ComputeDevice::Priority::kNormal);
  void* memory[2];
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(endpoints[rank]->UseDevice(&device).ok());
    memory[rank] = *device.Allocate(DEVICE, 8);
  }
  int64_t most = 0;
  for (int i = 0; i < 1000; ++i) {
    std::deque<Transfer> transfers(2);
    for (int rank = 0; rank < 2; ++rank) {
      transfers[rank].data = memory[rank];
      transfers[rank].bytes = 8;
      transfers[rank].peer = 1 - rank;
      transfers[rank].stream = rank == 0 ? from : to;
    }
    ASSERT_TRUE(endpoints[0]->PostSend(&transfers[0]).ok());
    ASSERT_TRUE(endpoints[1]->PostRecv(&transfers[1]).ok());
    ASSERT_TRUE(transfers[0].done && transfers[1].done);
    most = std::max(most, device.pending());
  }
  // Each message enqueues a record, a wait, a copy, a record and a wait.
  EXPECT_GT(most, 5 * static_cast<int64_t>(LoopbackMover::kInFlight));
  EXPECT_LE(most, 5 * 2 * static_cast<int64_t>(LoopbackMover::kInFlight) + 5);
}

TEST(LoopbackTest, RefusesWhatDoesNotFitTogether) {
  EXPECT_FALSE((*FindTransport("loopback"))->open(0).ok());
  const std::unique_ptr<ComputeDevice> one = MakeHostDevice(), other = MakeHostDevice();
  const auto endpoints = Open(2);
  std::deque<Transfer> transfers(2);
  char bytes[2][4] = {};
  for (int rank = 0; rank < 2; ++rank) {
    transfers[rank].data = bytes[rank];
    transfers[rank].bytes = 4;
    transfers[rank].peer = 1 - rank;
    transfers[rank].stream = rank - 1;
  }
  const absl::Status no_device = endpoints[1]->PostRecv(&transfers[1]);
  EXPECT_THAT(std::string(no_device.message()), HasSubstr("a transfer on stream 0 has no device"));
  ASSERT_TRUE(endpoints[0]->UseDevice(one.get()).ok());
  EXPECT_THAT(std::string(endpoints[1]->UseDevice(other.get()).message()), HasSubstr("share one device"));
  ASSERT_TRUE(endpoints[1]->UseDevice(one.get()).ok());
  ASSERT_TRUE(endpoints[0]->PostSend(&transfers[0]).ok());
  const absl::Status mixed = endpoints[1]->PostRecv(&transfers[1]);
  EXPECT_THAT(std::string(mixed.message()), HasSubstr("rank 0 sends from host memory, rank 1 receives"));
  EXPECT_EQ(endpoints[0]->Poll().status(), mixed);
}

}  // namespace
}  // namespace weft::exec
