#include "cli/launch.h"

#include <unistd.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "cli/flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using Map = std::map<std::string, std::string>;

Environment Of(Map variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

const Map kTorchrun = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}};
const Map kMpirun = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};

TEST(ChooseLaunchTest, Choices) {
  Map started = kTorchrun;
  started[kLocalLauncherVariable] = absl::StrCat(getppid());
  const struct {
    const char *bootstrap, *transport;
    Map environment;
    Bootstrap expected;
    bool starts_ranks;
  } cases[] = {
      {"auto", "auto", {}, Bootstrap::kNone, false},
      {"auto", "inproc", {}, Bootstrap::kNone, false},
      {"auto", "mpi", {}, Bootstrap::kNone, false},
      {"auto", "tcp", {}, Bootstrap::kLocal, true},
      {"auto", "nccl", {}, Bootstrap::kLocal, true},
      {"local", "auto", {}, Bootstrap::kLocal, true},
      {"auto", "auto", kTorchrun, Bootstrap::kEnv, false},
      {"env", "tcp", kTorchrun, Bootstrap::kEnv, false},
      {"local", "tcp", kTorchrun, Bootstrap::kLocal, true},
      // All in this process, whoever started it.
      {"auto", "inproc", kTorchrun, Bootstrap::kNone, false},
      {"auto", "loopback", kMpirun, Bootstrap::kNone, false},
      {"auto", "auto", kMpirun, Bootstrap::kMpi, false},
      {"mpi", "tcp", kMpirun, Bootstrap::kMpi, false},
      {"auto", "auto", started, Bootstrap::kLocal, false},
      {"local", "tcp", started, Bootstrap::kLocal, false},
  };
  for (const auto& [bootstrap, transport, environment, expected, starts_ranks] : cases) {
    SCOPED_TRACE(absl::StrCat("--bootstrap=", bootstrap, " --transport=", transport));
    const auto launch = ChooseLaunch(bootstrap, transport, Of(environment));
    ASSERT_TRUE(launch.ok()) << launch.status();
    EXPECT_EQ(launch->bootstrap, expected);
    EXPECT_EQ(launch->starts_ranks, starts_ranks);
    EXPECT_EQ(WantedBootstrap(), expected);
  }
}

TEST(ChooseTransportTest, GpusTalkThroughNccl) {
  EXPECT_EQ(ChooseTransport("auto", "cpu", Bootstrap::kEnv), "auto");
  EXPECT_EQ(ChooseTransport("auto", "cuda", Bootstrap::kEnv), "nccl");
  EXPECT_EQ(ChooseTransport("auto", "cuda", Bootstrap::kLocal), "nccl");
  EXPECT_EQ(ChooseTransport("auto", "cuda", Bootstrap::kNone), "loopback");
  EXPECT_EQ(ChooseTransport("mpi", "cuda", Bootstrap::kMpi), "mpi");
}

TEST(ChooseLaunchTest, Contradictions) {
  EXPECT_TRUE(IsUsageError(ChooseLaunch("local", "inproc", Of({})).status()));
  EXPECT_TRUE(IsUsageError(ChooseLaunch("env", "loopback", Of(kTorchrun)).status()));
  EXPECT_THAT(std::string(ChooseLaunch("local", "mpi", Of({})).status().message()),
              HasSubstr("allowed: --bootstrap=mpi, auto"));
  EXPECT_THAT(std::string(ChooseLaunch("env", "auto", Of({})).status().message()),
              HasSubstr("WORLD_SIZE, RANK, LOCAL_RANK are not set"));
  EXPECT_THAT(std::string(ChooseLaunch("mpi", "auto", Of({})).status().message()),
              HasSubstr("start it with mpirun or srun --mpi=pmix"));
}

}  // namespace
}  // namespace weft
