#include "executor/transports/tcp_mesh.h"

#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "executor/job/reported_remotely.h"
#include "executor/platform/monotonic_clock.h"
#include "executor/testing/job_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

int64_t In(int64_t milliseconds) { return MonotonicNanoseconds() + milliseconds * 1000000; }

TEST(ConnectMeshTest, EachTwoRanksHaveOneConnection) {
  constexpr int kRanks = 6;
  const std::vector<Rendezvous> job = LocalJob(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      // The ranks come in any order.
      std::this_thread::sleep_for(std::chrono::milliseconds(rank * 17 % 50));
      const auto connections = ConnectMesh(job[rank]);
      ASSERT_TRUE(connections.ok()) << connections.status();
      ASSERT_EQ(connections->size(), kRanks);
      EXPECT_FALSE((*connections)[rank].socket.open());
      for (int peer = 0; peer < kRanks; ++peer) {
        if (peer == rank) continue;
        EXPECT_EQ((*connections)[peer].process, getpid());
        EXPECT_EQ((*connections)[peer].host, "127.0.0.1");
        const char own = static_cast<char>(10 * rank + peer);
        EXPECT_TRUE(SendAll((*connections)[peer].socket, absl::string_view(&own, 1), In(10000)).ok());
      }
      for (int peer = 0; peer < kRanks; ++peer) {
        if (peer == rank) continue;
        char theirs = 0;
        EXPECT_TRUE(RecvAll((*connections)[peer].socket, &theirs, 1, In(10000)).ok());
        EXPECT_EQ(theirs, 10 * peer + rank);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A rank that is lost on the way ends the waits of the others at once, and the error names it.
TEST(ConnectMeshTest, ALostRankIsNamed) {
  const std::vector<Rendezvous> job = LocalJob(3);
  const int64_t start = MonotonicNanoseconds();
  std::thread dies([&] {
    const auto store = StoreClient::Connect("127.0.0.1", job[2].port, 2, {.size = 3, .secret = job[2].secret},
                                            std::chrono::seconds(20));
    ASSERT_TRUE(store.ok()) << store.status();
    // No socket listens at the address that the rank gives, and then the rank's connection is closed.
    EXPECT_TRUE((*store)->Set("tcp address of rank 2", "127.0.0.1 1 77").ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    shutdown((*store)->fd(), SHUT_RDWR);
  });
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      EXPECT_EQ(ConnectMesh(job[rank]).status().message(),
                "rank 2 was lost while the job was starting: its connection was closed");
    });
  }
  for (std::thread& thread : threads) thread.join();
  dies.join();
  EXPECT_LT(MonotonicNanoseconds() - start, int64_t{10} * 1000 * 1000 * 1000);
}

// If a rank cannot reach another, for example because of a firewall, the error names both.
TEST(ConnectMeshTest, ARankThatCannotBeReachedIsNamed) {
  std::vector<Rendezvous> job = LocalJob(2);
  job[1].timeout = std::chrono::milliseconds(500);
  StoreOptions options = {.size = 2, .secret = job[0].secret};
  const auto server = StoreServer::Start(*AdoptListener(job[0].listener_fd), options);
  ASSERT_TRUE(server.ok());
  const auto zero = StoreClient::Connect("127.0.0.1", job[0].port, 0, options, std::chrono::seconds(20));
  ASSERT_TRUE(zero.ok());
  EXPECT_TRUE((*zero)->Set("tcp address of rank 0", "127.0.0.1 1 77").ok());
  EXPECT_THAT(std::string(ConnectMesh(job[1]).status().message()),
              HasSubstr("rank 1 cannot reach rank 0 at 127.0.0.1:1: Connection refused; ranks connect to each other on "
                        "ports that the system chooses"));
  // Rank 0 does not wait for rank 1.
  const absl::Status told = (*zero)->Barrier("tcp connections", std::chrono::seconds(60));
  EXPECT_THAT(std::string(told.message()), HasSubstr("rank 1 cannot reach rank 0"));
  EXPECT_TRUE(ReportedRemotely(told));
}

}  // namespace
}  // namespace weft::exec
