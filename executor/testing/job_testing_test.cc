// Tests what tests of jobs rely on: environments hold only their own variables, and the processes of a job really find
// each other.
#include "executor/testing/job_testing.h"

#include <set>

#include "executor/job/tcp_socket.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

TEST(JobTesting, AnEnvironmentHasItsVariablesAlone) {
  const Environment environment = EnvironmentOf({{"RANK", "3"}, {"EMPTY", ""}});
  EXPECT_EQ(environment("RANK"), "3");
  // A variable that is set to an empty value is not unset.
  EXPECT_EQ(environment("EMPTY"), "");
  EXPECT_EQ(environment("WORLD_SIZE"), std::nullopt);
  // Variables of the process that runs the test are not seen.
  EXPECT_NE(ProcessEnvironment()("PATH"), std::nullopt);
  EXPECT_EQ(environment("PATH"), std::nullopt);
}

TEST(JobTesting, RanksAreToldOfOneStoreThatListens) {
  const std::vector<Rendezvous> job = LocalJob(3, std::chrono::seconds(5));
  ASSERT_EQ(job.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(job[rank].process.rank, rank);
    EXPECT_EQ(job[rank].process.size, 3);
    EXPECT_EQ(job[rank].process.local_rank, rank);
    EXPECT_EQ(job[rank].process.bootstrap, Bootstrap::kEnv);
    EXPECT_EQ(job[rank].host, "127.0.0.1");
    EXPECT_EQ(job[rank].port, job[0].port);
    EXPECT_EQ(job[rank].secret, job[0].secret);
    EXPECT_GE(job[rank].secret.size(), 16u);
    EXPECT_EQ(job[rank].timeout, std::chrono::seconds(5));
    EXPECT_EQ(job[rank].listener_fd >= 0, rank == 0);
  }
  // The listener listens on the job's port.
  Socket listener(job[0].listener_fd);
  const absl::StatusOr<SocketAddress> address = LocalAddress(listener);
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->port(), job[0].port);
}

TEST(JobTesting, JobsAtTheSameTimeHavePortsOfTheirOwn) {
  std::set<int> ports;
  std::vector<Socket> listeners;
  for (int i = 0; i < 8; ++i) {
    const std::vector<Rendezvous> job = LocalJob(1);
    ports.insert(job[0].port);
    listeners.emplace_back(job[0].listener_fd);
  }
  EXPECT_EQ(ports.size(), 8u);
}

}  // namespace
}  // namespace weft::exec
