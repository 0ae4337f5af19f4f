#include "executor/transports/nccl_communicators.h"

#include <algorithm>
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

using ::testing::HasSubstr;

TEST(NcclCommunicatorsTest, NothingIsConnectedInAStep) {
  NcclJob job(2, 1);
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

TEST(NcclCommunicatorsTest, AMissingMemberIsNamedAndAllEnd) {
  NcclJob job(3, 1, std::chrono::milliseconds(200));
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
  // Ranks 0 and 1 wait equally long, so each may be the first to give up, or both at once.
  for (const absl::Status& status : results) {
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("waited for rank 2 for 0.2 s to make NCCL communicator 'weft "));
  }
  EXPECT_EQ(FakeNccl::Alive(), 0);
}

TEST(NcclCommunicatorsTest, RanksThatDoNotRunTheSameProgramAreFound) {
  NcclJob job(2, 1);
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

// Kernels that wait hold their multiprocessors, so there may not be more communicators than fit.
TEST(NcclCommunicatorsTest, MoreCommunicatorsThanHaveRoomAreRefused) {
  NcclJob job(2, 1);
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
    EXPECT_THAT(std::string(status.message()), HasSubstr("would take 106 multiprocessors of a GPU at the same time"));
  }
}

NcclGroup Pair(int from, int to) { return {{from, to}, absl::StrCat(from, ">", to), true}; }

// Ranks make their communicators one after another in the order of OrderOf. Returns the number of turns until all are
// made, if a turn makes every communicator that is the next of all its members.
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

TEST(NcclCommunicatorsTest, APipelineTakesTwoTurnsPerDirection) {
  for (const int ranks : {2, 8, 64}) {
    std::vector<NcclGroup> groups;
    for (int rank = 0; rank + 1 < ranks; ++rank) {
      groups.push_back(Pair(rank, rank + 1));
      groups.push_back(Pair(rank + 1, rank));
    }
    EXPECT_LE(Turns(groups, ranks), 4);
  }
}

TEST(NcclCommunicatorsTest, NoSetOfGroupsDeadlocks) {
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
}  // namespace weft::exec
