#include "executor/transports/nccl.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/transports/testing/nccl_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Message {
  int peer;
  int channel;
  bool send;
};

// Posts the messages of each rank as one group, on one stream. Values show who sent them.
absl::Status RunGroup(NcclJob& job, int rank, const std::vector<Message>& messages, int rounds) {
  Endpoint& endpoint = *job.endpoints[rank];
  FakeGpu& gpu = *job.gpus[rank];
  WEFT_RETURN_IF_ERROR(endpoint.UseDevice(&gpu));
  WEFT_ASSIGN_OR_RETURN(const int stream, gpu.NewStream(ComputeDevice::Priority::kNormal));
  WEFT_ASSIGN_OR_RETURN(const int event, gpu.NewEvent(false));
  std::deque<Transfer> transfers(messages.size());
  std::vector<const Transfer*> sends, receives;
  for (size_t i = 0; i < messages.size(); ++i) {
    Transfer& transfer = transfers[i];
    transfer.bytes = 4096;
    transfer.peer = messages[i].peer;
    transfer.channel = messages[i].channel;
    transfer.stream = stream;
    WEFT_ASSIGN_OR_RETURN(transfer.data, gpu.Allocate(DEVICE, transfer.bytes));
    (messages[i].send ? sends : receives).push_back(&transfer);
  }
  WEFT_RETURN_IF_ERROR(endpoint.Connect(sends, receives));
  std::vector<char> bytes(4096);
  WEFT_ASSIGN_OR_RETURN(void* const zero, gpu.Allocate(DEVICE, 4096));
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < messages.size(); ++i) {
      if (!messages[i].send) continue;
      bytes.assign(4096, static_cast<char>(10 * rank + messages[i].peer + messages[i].channel + round));
      WEFT_RETURN_IF_ERROR(gpu.CopyNow(transfers[i].data, bytes.data(), 4096));
    }
    WEFT_RETURN_IF_ERROR(endpoint.BeginGroup());
    for (size_t i = 0; i < messages.size(); ++i) {
      WEFT_RETURN_IF_ERROR(messages[i].send ? endpoint.PostSend(&transfers[i]) : endpoint.PostRecv(&transfers[i]));
    }
    WEFT_RETURN_IF_ERROR(endpoint.EndGroup());
    // The copy is on the same stream, so it finds the data that was received.
    for (size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].send) continue;
      if (!transfers[i].done) return absl::InternalError("a group's member is not done");
      WEFT_ASSIGN_OR_RETURN(void* const copy, gpu.Allocate(DEVICE, 4096));
      WEFT_RETURN_IF_ERROR(gpu.Copy(stream, copy, transfers[i].data, 4096));
      WEFT_RETURN_IF_ERROR(gpu.Copy(stream, transfers[i].data, zero, 4096));
      WEFT_RETURN_IF_ERROR(gpu.Record(event, stream));
      WEFT_RETURN_IF_ERROR(gpu.Synchronize(event));
      WEFT_RETURN_IF_ERROR(gpu.CopyNow(bytes.data(), copy, 4096));
      const std::vector<char> expected(4096,
                                       static_cast<char>(10 * messages[i].peer + rank + messages[i].channel + round));
      if (bytes != expected) return absl::DataLossError(absl::StrCat("rank ", rank, ", message ", i));
    }
  }
  return absl::OkStatus();
}

// Both ranks send before they receive, on one stream. That can end only as a group.
TEST(NcclTest, MembersOfAGroupThatShareAStreamRunTogether) {
  for (const uint64_t seed : {1, 2, 3}) {
    NcclJob job(3, seed);
    job.RunWell([&](int rank) {
      std::vector<Message> messages;
      for (const bool send : {true, false}) {
        for (int peer = 0; peer < 3; ++peer) {
          if (peer == rank) continue;
          messages.push_back({peer, 0, send});
          messages.push_back({peer, 1, send});
        }
      }
      std::mt19937 random(static_cast<uint32_t>(seed * 10 + rank));
      std::shuffle(messages.begin(), messages.end(), random);
      return RunGroup(job, rank, messages, 4);
    });
  }
}

TEST(NcclTest, ARankSendsToItself) {
  NcclJob job(1, 1);
  job.RunWell([&](int rank) { return RunGroup(job, rank, {{0, 4, true}, {0, 4, false}}, 3); });
  EXPECT_THAT(FakeNccl::Made(), ElementsAre("weft 0>0 channel 4"));
}

TEST(NcclTest, CollectivesOfItsOwn) {
  constexpr int64_t kShare = 1000;
  for (const int members : {1, 2, 4}) {
    SCOPED_TRACE(members);
    NcclJob job(members, 7);
    job.RunWell([&](int rank) -> absl::Status {
      Endpoint& endpoint = *job.endpoints[rank];
      FakeGpu& gpu = *job.gpus[rank];
      WEFT_RETURN_IF_ERROR(endpoint.UseDevice(&gpu));
      NativeCollectives& native = *endpoint.native_collectives();
      std::vector<int> ranks(members);
      for (int i = 0; i < members; ++i) ranks[i] = i;
      WEFT_ASSIGN_OR_RETURN(const int group, native.NewGroup(ranks, "data"));
      WEFT_RETURN_IF_ERROR(endpoint.Connect({}, {}));
      // The group "data" exists already; the group "tensor" is new.
      WEFT_ASSIGN_OR_RETURN(const int again, native.NewGroup(ranks, "data"));
      WEFT_ASSIGN_OR_RETURN(const int later, native.NewGroup(ranks, "tensor"));
      if (again != group || later == group) return absl::InternalError("groups are mixed up");
      if (members > 1) {
        EXPECT_THAT(std::string(native.Enqueue(later, {}, 0).message()), HasSubstr("'weft tensor' of ranks 0, 1"));
      }
      WEFT_RETURN_IF_ERROR(endpoint.Connect({}, {}));
      WEFT_ASSIGN_OR_RETURN(const int stream, gpu.NewStream(ComputeDevice::Priority::kNormal));
      const int64_t whole = kShare * members;
      void* memory[4];
      for (void*& place : memory) {
        WEFT_ASSIGN_OR_RETURN(place, gpu.Allocate(DEVICE, whole * 4));
      }
      std::vector<float> mine(whole), got(whole), reduced(whole), gathered(whole);
      float sum_of_ranks = 0;
      for (int i = 0; i < members; ++i) sum_of_ranks += static_cast<float>(i);
      for (int64_t i = 0; i < whole; ++i) {
        mine[i] = static_cast<float>(rank * 10000 + i);
        reduced[i] = sum_of_ranks * 10000 + static_cast<float>(members * i);
        gathered[i] = static_cast<float>(i / kShare * 10000 + i % kShare);
      }
      for (int round = 0; round < 3; ++round) {
        WEFT_RETURN_IF_ERROR(gpu.CopyNow(memory[0], mine.data(), whole * 4));
        const NativeCollectives::Call calls[] = {
            {ALL_REDUCE, FP32, whole, memory[0], memory[1]},
            {ALL_GATHER, FP32, kShare, memory[0], memory[2]},
            {REDUCE_SCATTER, FP32, whole, memory[0], memory[3]},
        };
        WEFT_RETURN_IF_ERROR(native.Enqueue(round == 2 ? later : group, calls, stream));
        WEFT_RETURN_IF_ERROR(gpu.CopyNow(got.data(), memory[1], whole * 4));
        if (got != reduced) return absl::DataLossError("all-reduce");
        WEFT_RETURN_IF_ERROR(gpu.CopyNow(got.data(), memory[2], whole * 4));
        if (got != gathered) return absl::DataLossError("all-gather");
        WEFT_RETURN_IF_ERROR(gpu.CopyNow(got.data(), memory[3], kShare * 4));
        for (int64_t i = 0; i < kShare; ++i) {
          if (got[i] != reduced[rank * kShare + i]) return absl::DataLossError("reduce-scatter");
        }
      }
      return absl::OkStatus();
    });
    EXPECT_EQ(FakeNccl::Made().size(), members == 1 ? 0u : 2u);
  }
}

// Rule P10: NCCL's order of summation is its own.
TEST(NcclTest, SaysWhichCollectivesItHas) {
  NcclJob job(1, 1);
  job.RunWell([&](int rank) -> absl::Status {
    WEFT_RETURN_IF_ERROR(job.endpoints[rank]->UseDevice(job.gpus[rank].get()));
    const NativeCollectives& native = *job.endpoints[rank]->native_collectives();
    for (const DType dtype : {FP64, FP32, BF16, FP16, EXACT192}) {
      const bool sums = dtype != EXACT192;
      EXPECT_EQ(native.Has({ALL_REDUCE, dtype, 8}), sums);
      EXPECT_EQ(native.Has({REDUCE_SCATTER, dtype, 8}), sums);
      EXPECT_TRUE(native.Has({ALL_GATHER, dtype, 8}));
      EXPECT_TRUE(native.KeepsOrder({ALL_REDUCE, dtype, 8}, "ring", 2));
      EXPECT_FALSE(native.KeepsOrder({ALL_REDUCE, dtype, 8}, "ring", 3));
      EXPECT_TRUE(native.KeepsOrder({ALL_GATHER, dtype, 8}, "ring", 8));
    }
    return absl::OkStatus();
  });
}

TEST(NcclTest, ADeviceThatIsNotCudaIsRefused) {
  NcclJob job(1, 1);
  const auto host = MakeHostDevice();
  EXPECT_EQ(job.endpoints[0]->UseDevice(host.get()).message(),
            "transport 'nccl' moves memory of GPUs, but the backend's device is 'host'; allowed transports: inproc, "
            "loopback, mpi, tcp; or use --backend=cuda");
  job.endpoints.clear();
}

// Rank 0 issues two receives on one stream and then a send on another. Rank 1 sends what the first receive waits for
// only after it has received from rank 0, so the send must not be held up by the second receive.
absl::Status ReceiveAhead(NcclJob& job, int rank, std::chrono::milliseconds limit) {
  Endpoint& endpoint = *job.endpoints[rank];
  FakeGpu& gpu = *job.gpus[rank];
  WEFT_RETURN_IF_ERROR(endpoint.UseDevice(&gpu));
  // The first two messages are on one edge; the third has the opposite direction.
  Transfer transfers[3];
  int streams[2];
  for (int& stream : streams) {
    WEFT_ASSIGN_OR_RETURN(stream, gpu.NewStream(ComputeDevice::Priority::kNormal));
  }
  WEFT_ASSIGN_OR_RETURN(const int event, gpu.NewEvent(false));
  for (Transfer& transfer : transfers) {
    transfer.bytes = 64;
    transfer.peer = 1 - rank;
    transfer.channel = 1;
    transfer.stream = streams[0];
    WEFT_ASSIGN_OR_RETURN(transfer.data, gpu.Allocate(DEVICE, 64));
  }
  Transfer& back = transfers[2];
  back.stream = streams[1];
  const Transfer* edge[] = {&transfers[0]};
  const Transfer* other[] = {&back};
  WEFT_RETURN_IF_ERROR(rank == 0 ? endpoint.Connect(other, edge) : endpoint.Connect(edge, other));
  if (rank == 0) {
    WEFT_RETURN_IF_ERROR(endpoint.PostRecv(&transfers[0]));
    WEFT_RETURN_IF_ERROR(endpoint.PostRecv(&transfers[1]));
    WEFT_RETURN_IF_ERROR(endpoint.PostSend(&back));
  } else {
    WEFT_RETURN_IF_ERROR(endpoint.PostRecv(&back));
    WEFT_RETURN_IF_ERROR(gpu.Record(event, back.stream));
    WEFT_RETURN_IF_ERROR(gpu.Wait(streams[0], event));
    WEFT_RETURN_IF_ERROR(endpoint.PostSend(&transfers[0]));
    WEFT_RETURN_IF_ERROR(endpoint.PostSend(&transfers[1]));
  }
  WEFT_RETURN_IF_ERROR(gpu.Record(event, streams[0]));
  const auto end = std::chrono::steady_clock::now() + limit;
  while (true) {
    WEFT_ASSIGN_OR_RETURN(const bool over, gpu.Finished(event));
    if (over) return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(endpoint.WaitForProgress(std::chrono::milliseconds(1)).status());
    if (std::chrono::steady_clock::now() > end) return absl::DeadlineExceededError("stuck");
  }
}

// Shows why NCCL_LAUNCH_ORDER_IMPLICIT stays off.
TEST(NcclTest, ReceivesMayBeIssuedAheadAsLongAsKernelsBeginWhenTheyCan) {
  {
    NcclJob job(2, 3);
    job.RunWell([&](int rank) { return ReceiveAhead(job, rank, std::chrono::seconds(60)); });
  }
  NcclJob job(2, 3);
  FakeNccl::BeginInOrder(true);
  for (const absl::Status& status :
       job.Run([&](int rank) { return ReceiveAhead(job, rank, std::chrono::milliseconds(300)); })) {
    EXPECT_EQ(status.message(), "stuck");
  }
}

// An error of NCCL names the rank, the communicator and its members. It ends all ranks, including those that wait in a
// kernel.
TEST(NcclTest, AnErrorOfNcclEndsTheJob) {
  NcclJob job(2, 1);
  std::atomic<int> ready{0};
  const auto start = std::chrono::steady_clock::now();
  const auto results = job.Run([&](int rank) -> absl::Status {
    Endpoint& endpoint = *job.endpoints[rank];
    FakeGpu& gpu = *job.gpus[rank];
    WEFT_RETURN_IF_ERROR(endpoint.UseDevice(&gpu));
    WEFT_ASSIGN_OR_RETURN(const int stream, gpu.NewStream(ComputeDevice::Priority::kNormal));
    WEFT_ASSIGN_OR_RETURN(const int event, gpu.NewEvent(false));
    Transfer transfer;
    transfer.bytes = 64;
    transfer.peer = 1 - rank;
    transfer.channel = 2;
    transfer.stream = stream;
    WEFT_ASSIGN_OR_RETURN(transfer.data, gpu.Allocate(DEVICE, 64));
    const Transfer* all[] = {&transfer};
    WEFT_RETURN_IF_ERROR(rank == 0 ? endpoint.Connect(all, {}) : endpoint.Connect({}, all));
    ++ready;
    while (ready < 2) std::this_thread::yield();
    // Rank 0's kernel waits for a partner that never comes.
    if (rank == 0) WEFT_RETURN_IF_ERROR(endpoint.PostSend(&transfer));
    WEFT_RETURN_IF_ERROR(gpu.Record(event, stream));
    if (rank == 1) FakeNccl::Fail("weft 0>1 channel 2", kNcclRemoteError);
    while (true) {
      WEFT_RETURN_IF_ERROR(endpoint.WaitForProgress(std::chrono::milliseconds(10)).status());
      WEFT_RETURN_IF_ERROR(gpu.Finished(event).status());
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  for (const absl::Status& status : results) {
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr("NCCL communicator 'weft 0>1 channel 2' of ranks 0, 1: failed: remote process exited or there "
                  "was a network error (of the fake)"));
  }
  EXPECT_EQ(FakeNccl::Alive(), 0);
}

}  // namespace
}  // namespace weft::exec
