#include "executor/job/announce_failure.h"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/job/reported_remotely.h"
#include "executor/testing/job_testing.h"
#include "executor/transports/tcp_mesh.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

// Whichever rank fails before it has met the others, the others end at once with its reason. Only that rank reports it.
TEST(AnnounceFailureTest, TheOthersDoNotWait) {
  for (int failed = 0; failed < 3; ++failed) {
    SCOPED_TRACE(failed);
    const std::vector<Rendezvous> job = LocalJob(3, seconds(60));
    const auto start = steady_clock::now();
    std::atomic<int> said{0};
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        if (rank == failed) {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          return AnnounceFailure(job[rank], absl::NotFoundError("no data"), [&] { ++said; });
        }
        const absl::Status status = ConnectMesh(job[rank]).status();
        EXPECT_TRUE(absl::IsNotFound(status) && ReportedRemotely(status)) << status;
        EXPECT_EQ(status.message(), "no data");
      });
    }
    for (std::thread& thread : ranks) thread.join();
    EXPECT_EQ(said, 1);
    EXPECT_LT(steady_clock::now() - start, seconds(10));
  }
}

// A rank that comes when the failure is already known is informed too.
TEST(AnnounceFailureTest, ALatecomerDoesNotWait) {
  const std::vector<Rendezvous> job = LocalJob(3, seconds(60));
  const auto start = steady_clock::now();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      if (rank == 2) return AnnounceFailure(job[rank], absl::NotFoundError("no data"), [] {});
      if (rank == 1) std::this_thread::sleep_for(seconds(2));
      const absl::Status status = ConnectMesh(job[rank]).status();
      EXPECT_TRUE(absl::IsNotFound(status) && ReportedRemotely(status)) << status;
    });
  }
  for (std::thread& thread : ranks) thread.join();
  EXPECT_LT(steady_clock::now() - start, seconds(10));
}

// A failure of all ranks is reported by one.
TEST(AnnounceFailureTest, OneOfManySaysIt) {
  const std::vector<Rendezvous> job = LocalJob(4, seconds(60));
  std::atomic<int> said{0};
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back(
        [&, rank] { AnnounceFailure(job[rank], absl::InvalidArgumentError("wrong flags"), [&] { ++said; }); });
  }
  for (std::thread& thread : ranks) thread.join();
  EXPECT_EQ(said, 1);
}

// If there is no store, a rank reports its failure soon, and a rank that is asked to stop does not go on trying.
TEST(AnnounceFailureTest, WithoutAStore) {
  std::vector<Rendezvous> job = LocalJob(2, seconds(60));
  {
    const Socket unused = *AdoptListener(job[0].listener_fd);
  }
  std::atomic<bool> stop{false}, said{false};
  job[1].stop = &stop;
  const auto start = steady_clock::now();
  std::thread one([&] { AnnounceFailure(job[1], absl::InternalError("why"), [&] { said = true; }); });
  while (!said) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_LT(steady_clock::now() - start, seconds(10));
  stop = true;
  one.join();
  EXPECT_LT(steady_clock::now() - start, seconds(10));
}

// A rank that is asked to stop while it waits for others ends the wait of all.
TEST(AnnounceFailureTest, AStopEndsTheWaitOfAll) {
  for (int stopped = 0; stopped < 2; ++stopped) {
    SCOPED_TRACE(stopped);
    std::vector<Rendezvous> job = LocalJob(3, seconds(60));
    std::atomic<bool> stop{false};
    job[stopped].stop = &stop;
    const auto start = steady_clock::now();
    std::atomic<int> told{0};
    std::vector<std::thread> ranks;
    // Rank 2 never comes.
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        const absl::Status status = ConnectMesh(job[rank]).status();
        EXPECT_TRUE(absl::IsCancelled(status)) << status;
        EXPECT_EQ(ReportedRemotely(status), rank != stopped);
        EXPECT_THAT(std::string(status.message()),
                    testing::StartsWith(
                        absl::StrCat("rank ", stopped, " was stopped by a signal before all ranks had connected")));
        ++told;
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    stop = true;
    for (std::thread& thread : ranks) thread.join();
    EXPECT_EQ(told, 2);
    EXPECT_LT(steady_clock::now() - start, seconds(10));
  }
}

}  // namespace
}  // namespace weft::exec
