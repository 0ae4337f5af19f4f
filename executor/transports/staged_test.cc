#include "executor/transports/staged.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/interface/device.h"
#include "executor/interface/transport.h"
#include "executor/transports/testing/device_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

std::vector<std::unique_ptr<Endpoint>> OpenStaged(int ranks) {
  auto endpoints = *(*FindTransport("inproc"))->open(ranks);
  for (auto& endpoint : endpoints) endpoint = MakeStagedEndpoint(std::move(endpoint));
  return endpoints;
}

TEST(StagedTest, ConformsWithADeviceForEachRank) {
  for (const uint64_t seed : {0, 1, 2, 3, 4, 5}) {
    for (const int ranks : {2, 3}) {
      for (const int streams : {1, 7}) {
        SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", ranks, " ranks, ", streams, " streams"));
        std::vector<std::unique_ptr<ComputeDevice>> devices;
        std::vector<ComputeDevice*> pointers;
        for (int rank = 0; rank < ranks; ++rank) {
          devices.push_back(ConformanceDevice(seed == 0 ? 0 : 10 * seed + rank));
          pointers.push_back(devices.back().get());
        }
        ExpectConforms(OpenStaged(ranks), pointers, streams, /*big=*/ranks == 2 && streams == 7 && seed < 3);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(StagedTest, OnlyWhereTheTransportNeedsIt) {
  const std::unique_ptr<ComputeDevice> host = MakeHostDevice(), device = ConformanceDevice(1);
  auto endpoints = *(*FindTransport("inproc"))->open(2);
  EXPECT_FALSE(*UseDeviceOrStage(endpoints[0], host.get()));
  EXPECT_TRUE(*UseDeviceOrStage(endpoints[1], device.get()));
  EXPECT_EQ(endpoints[1]->rank(), 1);
  auto shared = *(*FindTransport("loopback"))->open(2);
  EXPECT_FALSE(*UseDeviceOrStage(shared[0], device.get()));
  EXPECT_EQ(UseDeviceOrStage(shared[1], host.get()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(StagedTest, RefusesWhatWasNotAnnounced) {
  const auto endpoints = OpenStaged(2);
  const std::unique_ptr<ComputeDevice> device = ConformanceDevice(1);
  std::deque<Transfer> transfers(1);
  const Transfer* const announced[] = {&transfers[0]};
  transfers[0].bytes = 8;
  transfers[0].peer = 1;
  transfers[0].stream = 0;
  EXPECT_EQ(endpoints[0]->Connect(announced, {}).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(endpoints[0]->UseDevice(device.get()).ok());
  EXPECT_THAT(std::string(endpoints[0]->PostSend(&transfers[0]).message()),
              HasSubstr("a send of 8 bytes with rank 1 on channel 0 was not announced to the transport: 0 bytes"));
  ASSERT_TRUE(endpoints[0]->Connect(announced, {}).ok());
  transfers[0].bytes = 16;
  EXPECT_THAT(std::string(endpoints[0]->PostSend(&transfers[0]).message()), HasSubstr("8 bytes are reserved"));
  transfers[0].peer = 2;
  EXPECT_THAT(std::string(endpoints[0]->PostSend(&transfers[0]).message()), HasSubstr("with rank 2 of 2"));
  EXPECT_FALSE(endpoints[0]->Connect(announced, {}).ok());
}

TEST(StagedTest, DifferentSizesAbortTheJob) {
  const auto endpoints = OpenStaged(2);
  const std::unique_ptr<ComputeDevice> device = ConformanceDevice(3);
  std::deque<Transfer> transfers(2);
  for (int rank = 0; rank < 2; ++rank) {
    transfers[rank].data = *device->Allocate(DEVICE, 8);
    transfers[rank].bytes = rank == 0 ? 8 : 4;
    transfers[rank].peer = 1 - rank;
    transfers[rank].stream = *device->NewStream(ComputeDevice::Priority::kNormal);
    ASSERT_TRUE(endpoints[rank]->UseDevice(device.get()).ok());
    const Transfer* const announced[] = {&transfers[rank]};
    ASSERT_TRUE(endpoints[rank]->Connect(announced, announced).ok());
  }
  ASSERT_TRUE(endpoints[1]->PostRecv(&transfers[1]).ok());
  absl::Status status = endpoints[0]->PostSend(&transfers[0]);
  for (int i = 0; i < 1000 && status.ok(); ++i) status = endpoints[0]->Poll().status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 sends 8 bytes, rank 1 expects 4"));
  EXPECT_EQ(endpoints[1]->Poll().status(), status);
  EXPECT_FALSE(transfers[0].done || transfers[1].done);
}

}  // namespace
}  // namespace weft::exec
