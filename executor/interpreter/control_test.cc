// Tests the messages that ranks exchange besides the program's. The ranks are threads of one process.
// transports/inproc_test.cc tests that a missing rank ends the job.
#include "executor/interpreter/control.h"

#include <functional>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::chrono::seconds kLong(60);

std::vector<std::unique_ptr<Endpoint>> Open(int ranks) {
  auto endpoints = (*FindTransport("inproc"))->open(ranks);
  EXPECT_TRUE(endpoints.ok()) << endpoints.status();
  return *std::move(endpoints);
}

// Runs `rank` on one thread per rank.
void OnAll(int ranks, const std::function<void(int)>& rank) {
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) threads.emplace_back([&, r] { rank(r); });
  for (std::thread& thread : threads) thread.join();
}

TEST(Barrier, NobodyPassesBeforeTheLastHasCome) {
  constexpr int kRanks = 5, kRounds = 40;
  const auto endpoints = Open(kRanks);
  std::atomic<int> come(0), too_early(0);
  OnAll(kRanks, [&](int rank) {
    for (int round = 1; round <= kRounds; ++round) {
      // A different rank is late each time.
      if (rank == round % kRanks) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++come;
      EXPECT_EQ(Barrier(*endpoints[rank], kLong), absl::OkStatus());
      too_early += come < round * kRanks;
      // No rank begins the next round before all have checked the count.
      EXPECT_EQ(Barrier(*endpoints[rank], kLong), absl::OkStatus());
    }
  });
  EXPECT_EQ(come, kRanks * kRounds);
  EXPECT_EQ(too_early, 0);
}

TEST(Barrier, OneRankWaitsForNobody) { EXPECT_EQ(Barrier(*Open(1)[0], std::chrono::seconds(0)), absl::OkStatus()); }

TEST(GatherBytes, ComeToRankZeroInTheOrderOfRanks) {
  const std::vector<std::string> of_rank = {"zero", "", std::string(100'000, 'x'), std::string("\0three", 6)};
  const auto endpoints = Open(4);
  std::vector<std::vector<std::string>> got(4);
  OnAll(4, [&](int rank) {
    const auto all = GatherBytes(*endpoints[rank], of_rank[rank], kLong);
    ASSERT_TRUE(all.ok()) << all.status();
    got[rank] = *all;
  });
  EXPECT_EQ(got[0], of_rank);
  for (int rank = 1; rank < 4; ++rank) EXPECT_THAT(got[rank], IsEmpty()) << rank;
}

TEST(GatherBytes, NamesTheRankThatSendsNothing) {
  const auto endpoints = Open(3);
  std::vector<absl::Status> results(2);
  OnAll(2, [&](int rank) {
    results[rank] = GatherBytes(*endpoints[rank], "mine", std::chrono::milliseconds(rank == 0 ? 50 : 60'000)).status();
  });
  EXPECT_EQ(results[0], absl::DeadlineExceededError("rank 0: waited for rank 2 for 0.05 s"));
  // The part of rank 1 has arrived.
  EXPECT_EQ(results[1], absl::OkStatus());
  // A rank that comes late gets the error of the abort.
  EXPECT_EQ(GatherBytes(*endpoints[2], "mine", kLong).status(), results[0]);
}

TEST(SendNow, MessagesOfOnePairStayInOrder) {
  const auto endpoints = Open(2);
  std::vector<int64_t> got(100);
  OnAll(2, [&](int rank) {
    for (int64_t i = 0; i < 100; ++i) {
      const absl::Status status = rank == 1 ? SendNow(*endpoints[1], 0, &i, sizeof(i), kLong)
                                            : RecvNow(*endpoints[0], 1, &got[i], sizeof(i), kLong);
      EXPECT_EQ(status, absl::OkStatus());
    }
  });
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(got[i], i);
}

// Runs one vote of all ranks; returns the answer that each of them received.
std::vector<bool> Vote(const std::vector<std::unique_ptr<Endpoint>>& endpoints,
                       const std::vector<std::unique_ptr<StopVote>>& votes) {
  std::vector<char> stop(endpoints.size(), 2);
  OnAll(static_cast<int>(endpoints.size()), [&](int rank) {
    ASSERT_EQ(votes[rank]->Start(), absl::OkStatus());
    EXPECT_TRUE(votes[rank]->active());
    while (true) {
      const absl::StatusOr<bool> over = votes[rank]->Advance();
      ASSERT_TRUE(over.ok()) << over.status();
      if (*over) break;
      ASSERT_TRUE(endpoints[rank]->WaitForProgress(std::chrono::milliseconds(20)).ok());
    }
    EXPECT_FALSE(votes[rank]->active());
    stop[rank] = votes[rank]->stop();
  });
  return {stop.begin(), stop.end()};
}

TEST(StopVote, AllStopWhereOneIsAskedTo) {
  for (int asked_rank = 0; asked_rank < 3; ++asked_rank) {
    const auto endpoints = Open(3);
    std::atomic<bool> asked(false);
    std::vector<std::unique_ptr<StopVote>> votes;
    for (int rank = 0; rank < 3; ++rank) {
      votes.push_back(std::make_unique<StopVote>(*endpoints[rank], rank == asked_rank ? &asked : nullptr));
    }
    // The same StopVotes serve repetition after repetition.
    EXPECT_THAT(Vote(endpoints, votes), ElementsAre(false, false, false)) << asked_rank;
    EXPECT_THAT(Vote(endpoints, votes), ElementsAre(false, false, false)) << asked_rank;
    asked = true;
    EXPECT_THAT(Vote(endpoints, votes), ElementsAre(true, true, true)) << asked_rank;
    asked = false;
    EXPECT_THAT(Vote(endpoints, votes), ElementsAre(false, false, false)) << asked_rank;
  }
}

TEST(StopVote, NamesWhomItWaitsFor) {
  const auto endpoints = Open(3);
  StopVote root(*endpoints[0], nullptr), first(*endpoints[1], nullptr), second(*endpoints[2], nullptr);
  EXPECT_EQ(root.waiting_for(), -1);
  ASSERT_EQ(root.Start(), absl::OkStatus());
  EXPECT_EQ(root.waiting_for(), 1);
  ASSERT_EQ(first.Start(), absl::OkStatus());
  // Rank 1 has sent its part and waits for the answer; rank 0 is still waiting for rank 2.
  const auto progress = [&] {
    for (const auto& endpoint : endpoints) ASSERT_TRUE(endpoint->Poll().ok());
  };
  progress();
  EXPECT_EQ(root.waiting_for(), 2);
  EXPECT_EQ(first.waiting_for(), 0);
  EXPECT_FALSE(*root.Advance());
  ASSERT_EQ(second.Start(), absl::OkStatus());
  for (bool over = false; !over;) {
    progress();
    over = true;
    for (StopVote* vote : {&root, &first, &second}) over = *vote->Advance() && over;
  }
  EXPECT_EQ(root.waiting_for(), -1);
  EXPECT_EQ(second.waiting_for(), -1);
}

TEST(StopVote, OneRankDecidesAlone) {
  const auto endpoints = Open(1);
  std::atomic<bool> asked(true);
  StopVote vote(*endpoints[0], &asked);
  ASSERT_EQ(vote.Start(), absl::OkStatus());
  EXPECT_EQ(vote.waiting_for(), -1);
  EXPECT_TRUE(*vote.Advance());
  EXPECT_TRUE(vote.stop());
}

}  // namespace
}  // namespace weft::exec
