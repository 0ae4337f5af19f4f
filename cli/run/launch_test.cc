#include "cli/run/launch.h"

#include <unistd.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "cli/common/flags.h"
#include "executor/testing/job_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using Map = std::map<std::string, std::string>;

const Map kTorchrun = {{"RANK", "1"},
                       {"WORLD_SIZE", "2"},
                       {"LOCAL_RANK", "1"},
                       {"MASTER_ADDR", "10.0.0.1"},
                       {"MASTER_PORT", "29500"},
                       {"WEFT_JOB_SECRET", "0123456789abcdef"}};
const Map kMpirun = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};

Map With(Map map, const Map& more) {
  map.insert(more.begin(), more.end());
  return map;
}

TEST(ChooseLaunchTest, Choices) {
  Map started = kTorchrun;
  started[exec::kLocalLauncherVariable] = absl::StrCat(getppid());
  const struct {
    const char *bootstrap, *transport;
    Map environment;
    exec::Bootstrap expected;
    bool starts_ranks;
  } cases[] = {
      {"auto", "auto", {}, exec::Bootstrap::kNone, false},
      {"auto", "inproc", {}, exec::Bootstrap::kNone, false},
      {"auto", "tcp", {}, exec::Bootstrap::kLocal, true},
      {"auto", "nccl", {}, exec::Bootstrap::kLocal, true},
      {"local", "auto", {}, exec::Bootstrap::kLocal, true},
      {"none", "auto", {}, exec::Bootstrap::kNone, false},
      {"none", "auto", kTorchrun, exec::Bootstrap::kNone, false},
      {"none", "inproc", kMpirun, exec::Bootstrap::kNone, false},
      {"auto", "auto", kTorchrun, exec::Bootstrap::kEnv, false},
      {"env", "tcp", kTorchrun, exec::Bootstrap::kEnv, false},
      {"local", "tcp", kTorchrun, exec::Bootstrap::kLocal, true},
      // All ranks run in this process, whoever started it.
      {"auto", "inproc", kTorchrun, exec::Bootstrap::kNone, false},
      {"auto", "loopback", kMpirun, exec::Bootstrap::kNone, false},
      {"auto", "auto", kMpirun, exec::Bootstrap::kMpi, false},
      {"auto", "mpi", kMpirun, exec::Bootstrap::kMpi, false},
      {"mpi", "tcp", With(kMpirun, kTorchrun), exec::Bootstrap::kMpi, false},
      {"auto", "auto", started, exec::Bootstrap::kLocal, false},
      {"local", "tcp", started, exec::Bootstrap::kLocal, false},
  };
  for (const auto& [bootstrap, transport, environment, expected, starts_ranks] : cases) {
    SCOPED_TRACE(absl::StrCat("--bootstrap=", bootstrap, " --transport=", transport));
    const auto launch = ChooseLaunch(bootstrap, transport, exec::EnvironmentOf(environment));
    ASSERT_TRUE(launch.ok()) << launch.status();
    EXPECT_EQ(launch->bootstrap, expected);
    EXPECT_EQ(launch->starts_ranks, starts_ranks);
    EXPECT_EQ(exec::WantedBootstrap(), expected);
  }
}

TEST(ChooseTransportTest, GpusTalkThroughNccl) {
  EXPECT_EQ(ChooseTransport("auto", "cpu", exec::Bootstrap::kEnv), "auto");
  EXPECT_EQ(ChooseTransport("auto", "cuda", exec::Bootstrap::kEnv), "nccl");
  EXPECT_EQ(ChooseTransport("auto", "cuda", exec::Bootstrap::kLocal), "nccl");
  EXPECT_EQ(ChooseTransport("auto", "cuda", exec::Bootstrap::kNone), "loopback");
  EXPECT_EQ(ChooseTransport("mpi", "cuda", exec::Bootstrap::kMpi), "mpi");
}

TEST(ChooseLaunchTest, Contradictions) {
  EXPECT_TRUE(IsUsageError(ChooseLaunch("local", "inproc", exec::EnvironmentOf({})).status()));
  EXPECT_TRUE(IsUsageError(ChooseLaunch("env", "loopback", exec::EnvironmentOf(kTorchrun)).status()));
  for (const char* between : {"tcp", "mpi", "nccl"}) {
    const absl::Status none = ChooseLaunch("none", between, exec::EnvironmentOf({})).status();
    EXPECT_TRUE(IsUsageError(none)) << none;
    EXPECT_THAT(std::string(none.message()), HasSubstr("allowed: --transport=inproc, loopback, auto"));
  }
  EXPECT_THAT(std::string(ChooseLaunch("local", "mpi", exec::EnvironmentOf({})).status().message()),
              HasSubstr("allowed: --bootstrap=mpi, auto"));
  EXPECT_THAT(std::string(ChooseLaunch("auto", "mpi", exec::EnvironmentOf({})).status().message()),
              HasSubstr("--transport=mpi: no MPI launcher has started this process"));
  EXPECT_THAT(std::string(ChooseLaunch("auto", "mpi", exec::EnvironmentOf(kTorchrun)).status().message()),
              HasSubstr("start it as `mpirun -n RANKS weft run ...`"));
  // The message names everything that is missing at once.
  EXPECT_EQ(
      ChooseLaunch("env", "auto", exec::EnvironmentOf({})).status().message(),
      "WORLD_SIZE, RANK, MASTER_ADDR, MASTER_PORT, WEFT_JOB_SECRET are not set (--bootstrap=env; torchrun sets them, "
      "except WEFT_JOB_SECRET: give all processes of the job the same secret, e.g. from `openssl rand -hex 32`)");
  EXPECT_EQ(
      ChooseLaunch("auto", "auto", exec::EnvironmentOf({{"RANK", "1"}, {"MASTER_ADDR", "here"}})).status().message(),
      "WORLD_SIZE, MASTER_PORT, WEFT_JOB_SECRET are not set (--bootstrap=env; torchrun sets them, except "
      "WEFT_JOB_SECRET: give all processes of the job the same secret, e.g. from `openssl rand -hex 32`); to run all "
      "ranks in this process and ignore the launcher, use --transport=inproc");
  EXPECT_THAT(std::string(ChooseLaunch("auto", "tcp", exec::EnvironmentOf(kMpirun)).status().message()),
              HasSubstr("MASTER_ADDR, MASTER_PORT, WEFT_JOB_SECRET are not set"));
  EXPECT_THAT(std::string(ChooseLaunch("mpi", "auto", exec::EnvironmentOf({})).status().message()),
              HasSubstr("start it with mpirun or srun --mpi=pmix"));
}

}  // namespace
}  // namespace weft
