// Tests NCCL itself, with one rank on one GPU. It is not part of any automatic run (tag manual), because it needs the
// GPU.
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "executor/interface/backend.h"
#include "executor/platform/shared_library.h"
#include "executor/transports/nccl.h"
#include "executor/transports/nccl_communicators.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

class NcclGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    SetLibraryPath(absl::StrSplit(WEFT_CUDA_LIBRARY_PATH, ':', absl::SkipEmpty()));
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    const auto backend = FindBackend("cuda");
    ASSERT_TRUE(backend.ok()) << backend.status();
    auto opened = (*backend)->open({});
    ASSERT_TRUE(opened.ok()) << opened.status();
    device = *std::move(opened);
    const auto opened_table = OpenNcclTable();
    ASSERT_TRUE(opened_table.ok()) << opened_table.status();
    table = *opened_table;
    auto hosts = *(*FindTransport("inproc"))->open(1);
    endpoint = MakeNcclEndpoint(*table, std::move(hosts[0]));
    ASSERT_TRUE(endpoint->UseDevice(device.get()).ok());
    stream = *device->NewStream(ComputeDevice::Priority::kNormal);
    event = *device->NewEvent(false);
  }

  // True if all work of the stream is over within the limit.
  bool Over(std::chrono::milliseconds limit) {
    EXPECT_TRUE(device->Record(event, stream).ok());
    const auto end = std::chrono::steady_clock::now() + limit;
    while (std::chrono::steady_clock::now() < end) {
      const auto over = device->Finished(event);
      if (!over.ok() || *over) return over.ok();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  // Connects the rank with itself.
  void Connect(Transfer (&transfers)[2], int64_t bytes) {
    for (Transfer& transfer : transfers) {
      transfer.bytes = bytes;
      transfer.peer = 0;
      transfer.channel = 1;
      transfer.stream = stream;
      transfer.data = *device->Allocate(DEVICE, bytes);
    }
    const Transfer* send[] = {&transfers[0]};
    const Transfer* receive[] = {&transfers[1]};
    const absl::Status status = endpoint->Connect(send, receive);
    ASSERT_TRUE(status.ok()) << status;
  }

  std::unique_ptr<ComputeDevice> device;
  const NcclTable* table = nullptr;
  std::unique_ptr<Endpoint> endpoint;
  int stream = -1;
  int event = -1;
};

TEST_F(NcclGpuTest, SendsToItselfInAGroup) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  Transfer transfers[2];
  Connect(transfers, kBytes);
  for (int round = 0; round < 3; ++round) {
    const std::vector<char> sent(kBytes, static_cast<char>(17 + round));
    std::vector<char> received(kBytes);
    ASSERT_TRUE(device->CopyNow(transfers[0].data, sent.data(), kBytes).ok());
    ASSERT_TRUE(endpoint->BeginGroup().ok());
    ASSERT_TRUE(endpoint->PostSend(&transfers[0]).ok());
    ASSERT_TRUE(endpoint->PostRecv(&transfers[1]).ok());
    const absl::Status status = endpoint->EndGroup();
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(Over(std::chrono::seconds(30)));
    ASSERT_TRUE(device->CopyNow(received.data(), transfers[1].data, kBytes).ok());
    EXPECT_EQ(received, sent);
  }
}

TEST_F(NcclGpuTest, CollectivesOfACommunicatorOfOne) {
  auto hosts = *(*FindTransport("inproc"))->open(1);
  NcclCommunicators communicators(*table, *hosts[0]);
  const NcclGroup group = {{0}, "weft data", false};
  const absl::Status made = communicators.Make({group});
  ASSERT_TRUE(made.ok()) << made;
  const int index = communicators.Find(group);
  constexpr int64_t kElements = 1 << 20;
  std::vector<float> values(kElements), got(kElements);
  for (int64_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(i % 1000);
  void* from = *device->Allocate(DEVICE, kElements * 4);
  void* to = *device->Allocate(DEVICE, kElements * 4);
  ASSERT_TRUE(device->CopyNow(from, values.data(), kElements * 4).ok());
  const NcclComm comm = communicators.comm(index);
  const NcclStream on = device->NativeStream(stream);
  for (int kind = 0; kind < 3; ++kind) {
    ASSERT_TRUE(device->Clear(stream, to, kElements * 4).ok());
    const int result = kind == 0   ? table->all_reduce(from, to, kElements, kNcclFloat32, kNcclSum, comm, on)
                       : kind == 1 ? table->all_gather(from, to, kElements * 4, kNcclUint8, comm, on)
                                   : table->reduce_scatter(from, to, kElements, kNcclFloat32, kNcclSum, comm, on);
    const absl::Status status = communicators.Settle(index, result, "a collective");
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(Over(std::chrono::seconds(30)));
    ASSERT_TRUE(device->CopyNow(got.data(), to, kElements * 4).ok());
    EXPECT_EQ(got, values) << kind;
  }
  EXPECT_TRUE(communicators.Check().ok());
  communicators.Finish(std::chrono::seconds(10));
  EXPECT_EQ(communicators.size(), 0u);
}

// Communicators end in order and are made anew.
TEST_F(NcclGpuTest, CommunicatorsEndInOrder) {
  for (int round = 0; round < 3; ++round) {
    auto hosts = *(*FindTransport("inproc"))->open(1);
    NcclCommunicators communicators(*table, *hosts[0]);
    ASSERT_TRUE(communicators.Make({{{0}, "a", true}, {{0}, "b", false}}).ok());
    EXPECT_EQ(communicators.size(), 2u);
    const auto start = std::chrono::steady_clock::now();
    communicators.Finish(std::chrono::seconds(10));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  }
}

// A watchdog on another thread gives up while the GPU is busy. The rank's thread learns of it and aborts.
TEST_F(NcclGpuTest, AnAbortEndsARunUnderWay) {
  Transfer transfers[2];
  Connect(transfers, int64_t{256} << 20);
  std::thread watchdog([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    endpoint->Abort(absl::DeadlineExceededError("rank 0, action 1 has run for too long"));
  });
  absl::Status status;
  const auto start = std::chrono::steady_clock::now();
  while (status.ok() && std::chrono::steady_clock::now() - start < std::chrono::seconds(20)) {
    status = endpoint->BeginGroup();
    if (status.ok()) status = endpoint->PostSend(&transfers[0]);
    if (status.ok()) status = endpoint->PostRecv(&transfers[1]);
    if (status.ok()) status = endpoint->EndGroup();
    if (status.ok()) status = endpoint->Poll().status();
  }
  watchdog.join();
  EXPECT_EQ(status.message(), "rank 0, action 1 has run for too long");
  const auto aborted = std::chrono::steady_clock::now();
  endpoint.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - aborted, std::chrono::seconds(10));
  EXPECT_TRUE(Over(std::chrono::seconds(10)));
}

}  // namespace
}  // namespace weft::exec
