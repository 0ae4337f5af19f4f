#include "executor/transports/nccl.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "executor/transports/fake_nccl.h"
#include "executor/transports/nccl_communicators.h"
#include "executor/transports/transport_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kChannels[] = {0, 1, 2, 5, 6, 9, 21, 22, 23};

// Posts every transfer on a stream of the device, one per edge, and calls it done when the stream is past it.
class OnDevice : public Endpoint {
 public:
  OnDevice(std::unique_ptr<Endpoint> endpoint, FakeGpu* gpu) : endpoint_(std::move(endpoint)), gpu_(*gpu) {}

  absl::Status Open() {
    WEFT_RETURN_IF_ERROR(endpoint_->UseDevice(&gpu_));
    std::deque<Transfer> edges;
    std::vector<const Transfer*> sends, receives;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      for (const int channel : kChannels) {
        for (const bool send : {true, false}) {
          Transfer& edge = edges.emplace_back();
          edge.peer = peer;
          edge.channel = channel;
          WEFT_ASSIGN_OR_RETURN(edge.stream, gpu_.NewStream(ComputeDevice::Priority::kNormal));
          streams_[{peer, channel, send}] = edge.stream;
          (send ? sends : receives).push_back(&edge);
        }
      }
    }
    return endpoint_->Connect(sends, receives);
  }

  int rank() const override { return endpoint_->rank(); }
  int size() const override { return endpoint_->size(); }
  absl::Status PostSend(Transfer* transfer) override { return Post(transfer, true); }
  absl::Status PostRecv(Transfer* transfer) override { return Post(transfer, false); }
  absl::StatusOr<bool> Poll() override {
    WEFT_ASSIGN_OR_RETURN(bool news, endpoint_->Poll());
    for (auto posted = posted_.begin(); posted != posted_.end();) {
      WEFT_ASSIGN_OR_RETURN(const bool over, gpu_.Finished(posted->event));
      if (!over) {
        ++posted;
        continue;
      }
      posted->outer->start_ns = posted->inner->start_ns;
      posted->outer->end_ns = MonotonicNanoseconds();
      posted->outer->done = true;
      events_.push_back(posted->event);
      posted = posted_.erase(posted);
      news = true;
    }
    return news;
  }
  absl::StatusOr<bool> WaitForProgress(std::chrono::nanoseconds timeout) override {
    const auto end = std::chrono::steady_clock::now() + timeout;
    while (true) {
      WEFT_ASSIGN_OR_RETURN(const bool news, Poll());
      if (news || std::chrono::steady_clock::now() > end) return news;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  void Wake() override { endpoint_->Wake(); }
  bool Abort(const absl::Status& status) override { return endpoint_->Abort(status); }
  void Note(int64_t step, int32_t action) override { endpoint_->Note(step, action); }
  absl::Status CheckPeers(LastNote* last) override { return endpoint_->CheckPeers(last); }

 private:
  struct Posted {
    Transfer* outer;
    std::unique_ptr<Transfer> inner;
    int event;
  };

  absl::Status Post(Transfer* transfer, bool send) {
    Posted posted = {transfer, std::make_unique<Transfer>(), 0};
    Transfer& inner = *posted.inner;
    inner.data = transfer->data;
    inner.bytes = transfer->bytes;
    inner.peer = transfer->peer;
    inner.channel = transfer->channel;
    inner.stream = streams_.at({transfer->peer, transfer->channel, send});
    transfer->done = false;
    WEFT_RETURN_IF_ERROR(send ? endpoint_->PostSend(&inner) : endpoint_->PostRecv(&inner));
    if (!inner.done) return absl::InternalError("issued is not done");
    if (events_.empty()) {
      WEFT_ASSIGN_OR_RETURN(posted.event, gpu_.NewEvent(false));
    } else {
      posted.event = events_.back();
      events_.pop_back();
    }
    WEFT_RETURN_IF_ERROR(gpu_.Record(posted.event, inner.stream));
    posted_.push_back(std::move(posted));
    return absl::OkStatus();
  }

  std::unique_ptr<Endpoint> endpoint_;
  FakeGpu& gpu_;
  std::map<std::tuple<int, int, bool>, int> streams_;
  std::deque<Posted> posted_;
  std::vector<int> events_;
};

// Ranks as threads, each with a GPU of its own.
class Job {
 public:
  Job(int ranks, uint64_t seed, std::chrono::nanoseconds timeout = std::chrono::seconds(60)) {
    FakeNccl::Reset(seed);
    auto hosts = *(*FindTransport("inproc"))->open(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      gpus.push_back(std::make_unique<FakeGpu>(seed * 100 + rank));
      endpoints.push_back(MakeNcclEndpoint(FakeNccl::Table(), std::move(hosts[rank])));
      endpoints.back()->SetTimeout(timeout);
    }
  }

  // `run` of each rank, whose endpoint is ended (or aborted, after an error) on its thread.
  std::vector<absl::Status> Run(const std::function<absl::Status(int)>& run) {
    std::vector<absl::Status> results(endpoints.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < endpoints.size(); ++rank) {
      threads.emplace_back([&, rank] {
        results[rank] = run(static_cast<int>(rank));
        if (!results[rank].ok() && endpoints[rank] != nullptr) endpoints[rank]->Abort(results[rank]);
        endpoints[rank].reset();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  // As Run, but each must be well, and nothing left behind.
  void RunWell(const std::function<absl::Status(int)>& run) {
    const std::vector<absl::Status> results = Run(run);
    for (size_t rank = 0; rank < results.size(); ++rank) EXPECT_TRUE(results[rank].ok()) << rank << results[rank];
    EXPECT_THAT(FakeNccl::Violations(), IsEmpty());
    EXPECT_EQ(FakeNccl::Alive(), 0);
  }

  std::vector<std::unique_ptr<FakeGpu>> gpus;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
};

TEST(NcclTest, Conforms) {
  for (const int ranks : {2, 3}) {
    for (const uint64_t seed : {1, 2}) {
      SCOPED_TRACE(absl::StrCat(ranks, " ranks, seed ", seed));
      Job job(ranks, seed);
      const auto results = job.Run([&](int rank) -> absl::Status {
        OnDevice endpoint(std::move(job.endpoints[rank]), job.gpus[rank].get());
        WEFT_RETURN_IF_ERROR(endpoint.Open());
        ConformanceRank under_test(&endpoint);
        for (const ConformanceCase& test : ConformanceCases()) {
          const absl::Status status = test.run(under_test);
          if (!status.ok()) return absl::InternalError(absl::StrCat(test.name, ": ", status.ToString()));
        }
        return absl::OkStatus();
      });
      for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
      EXPECT_THAT(FakeNccl::Violations(), IsEmpty());
      EXPECT_EQ(FakeNccl::Alive(), 0);
    }
  }
}

TEST(NcclTest, OneOfRacingAbortsWins) {
  Job job(4, 5);
  bool won[4] = {};
  for (const absl::Status& status :
       job.Run([&](int rank) { return RacingAbortsConform(*job.endpoints[rank], &won[rank]); })) {
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(won[0] + won[1] + won[2] + won[3], 1);
}

struct Message {
  int peer;
  int channel;
  bool send;
};

// Posts the messages of each rank as one group, on one stream; values say who sent them.
absl::Status RunGroup(Job& job, int rank, const std::vector<Message>& messages, int rounds) {
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
    // On the same stream: it finds what was received.
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

// Both ranks send before they receive, on one stream: only as a group can that end.
TEST(NcclTest, MembersOfAGroupThatShareAStreamRunTogether) {
  for (const uint64_t seed : {1, 2, 3}) {
    Job job(3, seed);
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
  Job job(1, 1);
  job.RunWell([&](int rank) { return RunGroup(job, rank, {{0, 4, true}, {0, 4, false}}, 3); });
  EXPECT_THAT(FakeNccl::Made(), ::testing::ElementsAre("weft 0>0 channel 4"));
}

TEST(NcclTest, CollectivesOfItsOwn) {
  constexpr int64_t kShare = 1000;
  for (const int members : {1, 2, 4}) {
    SCOPED_TRACE(members);
    Job job(members, 7);
    job.RunWell([&](int rank) -> absl::Status {
      Endpoint& endpoint = *job.endpoints[rank];
      FakeGpu& gpu = *job.gpus[rank];
      WEFT_RETURN_IF_ERROR(endpoint.UseDevice(&gpu));
      NativeCollectives& native = *endpoint.native_collectives();
      std::vector<int> ranks(members);
      for (int i = 0; i < members; ++i) ranks[i] = i;
      WEFT_ASSIGN_OR_RETURN(const int group, native.NewGroup(ranks, "data"));
      WEFT_RETURN_IF_ERROR(endpoint.Connect({}, {}));
      // Known already; and one that comes later.
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
  Job job(1, 1);
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
  Job job(1, 1);
  const auto host = MakeHostDevice();
  EXPECT_EQ(job.endpoints[0]->UseDevice(host.get()).message(),
            "transport 'nccl' moves memory of GPUs, and the backend's device is 'host'; allowed with it: inproc, "
            "loopback, mpi, tcp; or use --backend=cuda");
  job.endpoints.clear();
}

TEST(NcclTest, NothingIsConnectedInAStep) {
  Job job(2, 1);
  job.RunWell([&](int rank) -> absl::Status {
    Endpoint& endpoint = *job.endpoints[rank];
    WEFT_RETURN_IF_ERROR(endpoint.UseDevice(job.gpus[rank].get()));
    WEFT_RETURN_IF_ERROR(endpoint.Connect({}, {}));
    Transfer transfer;
    transfer.peer = 1 - rank;
    transfer.channel = 3;
    transfer.stream = 0;
    EXPECT_EQ(endpoint.PostSend(&transfer).message(), absl::StrCat("rank ", rank, ": channel 3 to rank ", 1 - rank,
                                                                   " was not connected before the first step"));
    return absl::OkStatus();
  });
}

TEST(NcclTest, AMissingMemberIsNamedAndAllEnd) {
  Job job(3, 1, std::chrono::milliseconds(200));
  const auto results = job.Run([&](int rank) -> absl::Status {
    Endpoint& endpoint = *job.endpoints[rank];
    WEFT_RETURN_IF_ERROR(endpoint.UseDevice(job.gpus[rank].get()));
    if (rank == 2) {
      while (endpoint.Poll().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return endpoint.Poll().status();
    }
    Transfer to_two;
    to_two.peer = 2;
    to_two.channel = rank;
    to_two.stream = 0;
    const Transfer* sends[] = {&to_two};
    return endpoint.Connect(sends, {});
  });
  EXPECT_THAT(std::string(results[2].message()),
              HasSubstr("waited for rank 2 for 0.2 s to make NCCL communicator 'weft "));
  for (const absl::Status& status : results) EXPECT_EQ(status.message(), results[2].message());
  EXPECT_EQ(FakeNccl::Alive(), 0);
}

TEST(NcclTest, RanksThatDoNotRunTheSameProgramAreFound) {
  Job job(2, 1);
  const auto results = job.Run([&](int rank) -> absl::Status {
    Endpoint& endpoint = *job.endpoints[rank];
    WEFT_RETURN_IF_ERROR(endpoint.UseDevice(job.gpus[rank].get()));
    Transfer transfer;
    transfer.peer = 1 - rank;
    transfer.channel = 5 + rank;
    transfer.stream = 0;
    const Transfer* all[] = {&transfer};
    return rank == 0 ? endpoint.Connect(all, {}) : endpoint.Connect({}, all);
  });
  for (const absl::Status& status : results) {
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("rank 1 makes NCCL communicator 'weft 0>1 channel 6' of ranks 0, 1 as member 1 of 2, rank 0 "
                          "makes 'weft 0>1 channel 5'"));
  }
}

// A receive is issued ahead behind another on its stream; what the partner of the first waits for is issued after it.
absl::Status ReceiveAhead(Job& job, int rank, std::chrono::milliseconds limit) {
  Endpoint& endpoint = *job.endpoints[rank];
  FakeGpu& gpu = *job.gpus[rank];
  WEFT_RETURN_IF_ERROR(endpoint.UseDevice(&gpu));
  // The first two on one edge; the third the other way.
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

// Why NCCL_LAUNCH_ORDER_IMPLICIT stays off.
TEST(NcclTest, ReceivesMayBeIssuedAheadAsLongAsKernelsBeginWhenTheyCan) {
  {
    Job job(2, 3);
    job.RunWell([&](int rank) { return ReceiveAhead(job, rank, std::chrono::seconds(60)); });
  }
  Job job(2, 3);
  FakeNccl::BeginInOrder(true);
  for (const absl::Status& status :
       job.Run([&](int rank) { return ReceiveAhead(job, rank, std::chrono::milliseconds(300)); })) {
    EXPECT_EQ(status.message(), "stuck");
  }
}

// Kernels that wait hold their multiprocessors, so there may not be more of them than fit.
TEST(NcclTest, MoreCommunicatorsThanHaveRoomAreRefused) {
  Job job(2, 1);
  for (const absl::Status& status : job.Run([&](int rank) -> absl::Status {
         WEFT_RETURN_IF_ERROR(job.endpoints[rank]->UseDevice(job.gpus[rank].get()));
         std::vector<Transfer> transfers(60);
         std::vector<const Transfer*> all;
         for (size_t i = 0; i < transfers.size(); ++i) {
           transfers[i].peer = 1 - rank;
           transfers[i].channel = static_cast<int>(i);
           transfers[i].stream = 0;
           all.push_back(&transfers[i]);
         }
         return rank == 0 ? job.endpoints[rank]->Connect(all, {}) : job.endpoints[rank]->Connect({}, all);
       })) {
    EXPECT_THAT(std::string(status.message()), HasSubstr("would take 106 multiprocessors of a GPU at a time"));
  }
}

// An error of NCCL names rank, communicator and its members, and ends all ranks, those that wait in a kernel too.
TEST(NcclTest, AnErrorOfNcclEndsTheJob) {
  Job job(2, 1);
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

NcclGroup Pair(int from, int to) { return {{from, to}, absl::StrCat(from, ">", to), true}; }

// Ranks make their communicators one after another in the order of OrderOf: how many turns until all are made, if a
// turn makes every communicator that is the next of all its members.
int Turns(std::vector<NcclGroup> groups, int ranks) {
  std::sort(groups.begin(), groups.end(),
            [](const NcclGroup& a, const NcclGroup& b) { return OrderOf(a) < OrderOf(b); });
  std::vector<std::deque<size_t>> lists(ranks);
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const int rank : groups[i].ranks) lists[rank].push_back(i);
  }
  for (int turns = 0;; ++turns) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < groups.size(); ++i) {
      const auto& members = groups[i].ranks;
      if (std::all_of(members.begin(), members.end(),
                      [&](int rank) { return !lists[rank].empty() && lists[rank].front() == i; })) {
        ready.push_back(i);
      }
    }
    for (const size_t i : ready) {
      for (const int rank : groups[i].ranks) lists[rank].pop_front();
    }
    if (ready.empty()) {
      const bool all = std::all_of(lists.begin(), lists.end(), [](const auto& list) { return list.empty(); });
      return all ? turns : -1;
    }
  }
}

TEST(NcclOrderTest, APipelineTakesTwoTurnsPerDirection) {
  for (const int ranks : {2, 8, 64}) {
    std::vector<NcclGroup> groups;
    for (int rank = 0; rank + 1 < ranks; ++rank) {
      groups.push_back(Pair(rank, rank + 1));
      groups.push_back(Pair(rank + 1, rank));
    }
    EXPECT_LE(Turns(groups, ranks), 4);
  }
}

TEST(NcclOrderTest, NoSetOfGroupsDeadlocks) {
  const uint32_t seed = 31;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 9);
    std::vector<NcclGroup> groups;
    for (int i = 0; i < 30; ++i) {
      std::vector<int> all(ranks);
      for (int rank = 0; rank < ranks; ++rank) all[rank] = rank;
      std::shuffle(all.begin(), all.end(), random);
      const bool pair = random() % 2 == 0;
      all.resize(pair ? 2 : 1 + random() % ranks);
      groups.push_back({all, absl::StrCat(i), pair});
    }
    EXPECT_GE(Turns(groups, ranks), 0);
  }
}

}  // namespace
}  // namespace weft
