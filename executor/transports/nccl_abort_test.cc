// Tests that communicators whose kernels wait for a partner end together.
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "executor/interface/transport.h"
#include "executor/transports/nccl_communicators.h"
#include "executor/transports/testing/fake_nccl.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two ranks, each on its own thread, share two communicators. On both, rank 0 receives and rank 1 never sends. Then
// `end` is called on each rank.
void WaitInVain(const std::function<void(NcclCommunicators& communicators)>& end) {
  FakeNccl::Reset(7);
  auto hosts = *(*FindTransport("inproc"))->open(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const NcclTable& nccl = FakeNccl::Table();
      FakeGpu gpu(rank + 1);
      void* const memory = *gpu.Allocate(DEVICE, 8);
      NcclCommunicators communicators(nccl, *hosts[rank]);
      ASSERT_TRUE(communicators.Make({{{0, 1}, "a", true}, {{0, 1}, "b", true}}).ok());
      for (int i = 0; rank == 0 && i < 2; ++i) {
        const NcclStream stream = gpu.NativeStream(*gpu.NewStream(ComputeDevice::Priority::kHigh));
        const int result = nccl.recv(memory, 8, kNcclUint8, 1, communicators.comm(i), stream);
        ASSERT_TRUE(communicators.Settle(i, result, "a message").ok());
      }
      end(communicators);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(NcclAbortTest, AllKernelsThatWaitAreToldFirst) {
  WaitInVain([](NcclCommunicators& communicators) {
    communicators.Abort();
    EXPECT_EQ(communicators.size(), 0u);
  });
  EXPECT_THAT(FakeNccl::Violations(), IsEmpty());
  EXPECT_EQ(FakeNccl::Alive(), 0);
}

TEST(NcclAbortTest, SoAreThoseThatDoNotEndInOrder) {
  WaitInVain([](NcclCommunicators& communicators) { communicators.Finish(std::chrono::milliseconds(50)); });
  EXPECT_THAT(FakeNccl::Violations(), IsEmpty());
  EXPECT_EQ(FakeNccl::Alive(), 0);
}

// Shows the hang that the two tests above would find if communicators were ended one after the other.
TEST(NcclAbortTest, OneAfterTheOtherWaitsForEver) {
  WaitInVain([](NcclCommunicators& communicators) {
    for (int i = 0; i < 2; ++i) FakeNccl::Table().comm_abort(communicators.comm(i));
  });
  EXPECT_THAT(FakeNccl::Violations(),
              Contains(HasSubstr("a, member 0: is ended while kernels of b run: it may wait for ever")));
}

}  // namespace
}  // namespace weft::exec
