#include "executor/job/bootstrap.h"

#include <unistd.h>

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "executor/testing/job_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Map = std::map<std::string, std::string>;

Map Torchrun() {
  return {{"RANK", "3"},
          {"WORLD_SIZE", "8"},
          {"LOCAL_RANK", "1"},
          {"MASTER_ADDR", "10.0.0.1"},
          {"MASTER_PORT", "29500"},
          {"WEFT_JOB_SECRET", "0123456789abcdef"}};
}

TEST(FindLauncherTest, AutoTakesWhatIsThere) {
  EXPECT_EQ(FindLauncher(Bootstrap::kAuto, EnvironmentOf({}))->bootstrap, Bootstrap::kNone);
  EXPECT_EQ(FindLauncher(Bootstrap::kAuto, EnvironmentOf({}))->size, 0);
  // Half of a launcher's variables are a mistake: each process would train the whole job by itself.
  EXPECT_EQ(FindLauncher(Bootstrap::kAuto, EnvironmentOf({{"RANK", "3"}})).status().message(),
            "WORLD_SIZE is not set (--bootstrap=env; torchrun sets them)");
  const LaunchedAs env = *FindLauncher(Bootstrap::kAuto, EnvironmentOf(Torchrun()));
  EXPECT_EQ(env.bootstrap, Bootstrap::kEnv);
  EXPECT_EQ(env.rank, 3);
  EXPECT_EQ(env.size, 8);
  EXPECT_EQ(env.local_rank, 1);
  // MPI comes first: its launcher started the process, while the other variables may be left over.
  Map both = Torchrun();
  both.insert({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  EXPECT_EQ(FindLauncher(Bootstrap::kAuto, EnvironmentOf(both))->bootstrap, Bootstrap::kMpi);
  EXPECT_EQ(FindLauncher(Bootstrap::kAuto, EnvironmentOf(both))->rank, 1);
  EXPECT_EQ(FindLauncher(Bootstrap::kEnv, EnvironmentOf(both))->rank, 3);
}

TEST(FindLauncherTest, SlurmWithPmix) {
  const LaunchedAs process = *FindLauncher(
      Bootstrap::kAuto, EnvironmentOf({{"PMIX_RANK", "5"}, {"SLURM_STEP_NUM_TASKS", "16"}, {"SLURM_LOCALID", "2"}}));
  EXPECT_EQ(process.bootstrap, Bootstrap::kMpi);
  EXPECT_EQ(process.rank, 5);
  EXPECT_EQ(process.size, 16);
  EXPECT_EQ(process.local_rank, 2);
  EXPECT_THAT(std::string(FindLauncher(Bootstrap::kMpi, EnvironmentOf({{"PMIX_RANK", "5"}})).status().message()),
              HasSubstr("SLURM_STEP_NUM_TASKS is not set"));
}

TEST(FindLauncherTest, EachMissingOrWrongVariableIsNamed) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK"}) {
    Map variables = Torchrun();
    variables.erase(name);
    EXPECT_EQ(FindLauncher(Bootstrap::kEnv, EnvironmentOf(variables)).status().message(),
              name == std::string("LOCAL_RANK")
                  ? ""
                  : absl::StrCat(name, " is not set (--bootstrap=env; torchrun sets them)"));
    for (const char* wrong : {"two", "-1", "1.5", "99999999999999999999"}) {
      variables[name] = wrong;
      EXPECT_THAT(std::string(FindLauncher(Bootstrap::kEnv, EnvironmentOf(variables)).status().message()),
                  HasSubstr(absl::StrCat(name, "='", wrong, "' must be a ")));
    }
  }
  EXPECT_EQ(FindLauncher(Bootstrap::kEnv, EnvironmentOf({})).status().message(),
            "WORLD_SIZE, RANK are not set (--bootstrap=env; torchrun sets them)");
  Map variables = Torchrun();
  variables["RANK"] = "8";
  EXPECT_THAT(std::string(FindLauncher(Bootstrap::kEnv, EnvironmentOf(variables)).status().message()),
              HasSubstr("RANK=8 must be below WORLD_SIZE=8"));
  variables["WORLD_SIZE"] = "0";
  EXPECT_THAT(std::string(FindLauncher(Bootstrap::kEnv, EnvironmentOf(variables)).status().message()),
              AllOf(HasSubstr("WORLD_SIZE='0' must be a number of processes"), Not(HasSubstr("must be below"))));
  EXPECT_THAT(std::string(FindLauncher(Bootstrap::kMpi, EnvironmentOf(Torchrun())).status().message()),
              HasSubstr("no MPI launcher has started this process"));
}

// CPU ranks need no LOCAL_RANK: any rank may run on any core.
TEST(FindLauncherTest, OnlyGpusNeedALocalRank) {
  const auto check = [](Bootstrap bootstrap, Map variables) {
    return std::string(CheckLocalRank(bootstrap, EnvironmentOf(std::move(variables))).message());
  };
  EXPECT_EQ(check(Bootstrap::kEnv, Torchrun()), "");
  EXPECT_EQ(check(Bootstrap::kNone, {}), "");
  Map without = Torchrun();
  without.erase("LOCAL_RANK");
  EXPECT_EQ(check(Bootstrap::kNone, without), "");
  EXPECT_EQ(check(Bootstrap::kEnv, without),
            "LOCAL_RANK is not set; with GPUs it selects the GPU of each process on its node (torchrun sets it)");
  EXPECT_FALSE(FindRendezvous(Bootstrap::kEnv, EnvironmentOf(without))->process.local_rank.has_value());
  EXPECT_THAT(check(Bootstrap::kMpi, {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}),
              HasSubstr("OMPI_COMM_WORLD_LOCAL_RANK is not set"));
  EXPECT_THAT(check(Bootstrap::kMpi, {{"PMIX_RANK", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}),
              HasSubstr("SLURM_LOCALID is not set"));
}

TEST(FindLauncherTest, LocalIsWhoseParentSaysSo) {
  Map variables = Torchrun();
  variables[kLocalLauncherVariable] = absl::StrCat(getppid());
  EXPECT_EQ(FindLauncher(Bootstrap::kAuto, EnvironmentOf(variables))->bootstrap, Bootstrap::kLocal);
  EXPECT_EQ(FindLauncher(Bootstrap::kLocal, EnvironmentOf(variables))->rank, 3);
  // The variable is left over from another process, so this process is to start the ranks itself.
  variables[kLocalLauncherVariable] = absl::StrCat(getppid() + 1);
  EXPECT_EQ(FindLauncher(Bootstrap::kLocal, EnvironmentOf(variables))->size, 0);
}

TEST(FindRendezvousTest, ReadsEverything) {
  const auto rendezvous = FindRendezvous(Bootstrap::kEnv, EnvironmentOf(Torchrun()));
  ASSERT_TRUE(rendezvous.ok()) << rendezvous.status();
  EXPECT_EQ(rendezvous->host, "10.0.0.1");
  EXPECT_EQ(rendezvous->port, 29500);
  EXPECT_EQ(rendezvous->secret, "0123456789abcdef");
  EXPECT_EQ(rendezvous->timeout, std::chrono::seconds(300));
  EXPECT_EQ(rendezvous->listener_fd, -1);

  Map variables = Torchrun();
  // torchrun's own store uses the port.
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  variables["WEFT_RENDEZVOUS_TIMEOUT"] = "20";
  EXPECT_EQ(FindRendezvous(Bootstrap::kEnv, EnvironmentOf(variables))->port, 29501);
  EXPECT_EQ(FindRendezvous(Bootstrap::kEnv, EnvironmentOf(variables))->timeout, std::chrono::seconds(20));
  variables["WEFT_STORE_PORT"] = "4000";
  EXPECT_EQ(FindRendezvous(Bootstrap::kEnv, EnvironmentOf(variables))->port, 4000);
  // Only processes of the local launcher have a listener.
  variables[kListenerVariable] = "7";
  EXPECT_EQ(FindRendezvous(Bootstrap::kEnv, EnvironmentOf(variables))->listener_fd, -1);
  variables[kLocalLauncherVariable] = absl::StrCat(getppid());
  EXPECT_EQ(FindRendezvous(Bootstrap::kLocal, EnvironmentOf(variables))->listener_fd, 7);
}

TEST(FindRendezvousTest, EachMissingOrWrongVariableIsNamed) {
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "WEFT_JOB_SECRET"}) {
    Map variables = Torchrun();
    variables.erase(name);
    EXPECT_THAT(std::string(FindRendezvous(Bootstrap::kEnv, EnvironmentOf(variables)).status().message()),
                HasSubstr(absl::StrCat(name, " is not set")));
    variables[name] = "";
    EXPECT_FALSE(FindRendezvous(Bootstrap::kEnv, EnvironmentOf(variables)).ok());
  }
  for (const char* port : {"0", "65535", "http", "-1"}) {
    Map variables = Torchrun();
    variables["MASTER_PORT"] = port;
    EXPECT_THAT(std::string(FindRendezvous(Bootstrap::kEnv, EnvironmentOf(variables)).status().message()),
                HasSubstr(absl::StrCat("MASTER_PORT='", port, "' must be a port from 1 to 65534")));
  }
  for (const char* all : {"0.0.0.0", "::", "[::]", "*"}) {
    Map variables = Torchrun();
    variables["MASTER_ADDR"] = all;
    EXPECT_THAT(
        std::string(FindRendezvous(Bootstrap::kEnv, EnvironmentOf(variables)).status().message()),
        HasSubstr(absl::StrCat("MASTER_ADDR='", all, "' means all addresses of a machine; allowed: one address of")));
  }
  const auto wrong = [](const std::string& host) {
    Map variables = Torchrun();
    variables["MASTER_ADDR"] = host;
    return std::string(FindRendezvous(Bootstrap::kEnv, EnvironmentOf(variables)).status().message());
  };
  EXPECT_EQ(wrong("10.0.0.1:29500"),
            "MASTER_ADDR='10.0.0.1:29500' contains a port, which belongs in MASTER_PORT; nearest valid: "
            "MASTER_ADDR=10.0.0.1 MASTER_PORT=29500");
  EXPECT_THAT(wrong("[::1]:80"), HasSubstr("nearest valid: MASTER_ADDR=[::1] MASTER_PORT=80"));
  EXPECT_THAT(wrong("node-1:"), HasSubstr("nearest valid: MASTER_ADDR=node-1"));
  EXPECT_THAT(wrong(std::string(254, 'n')), HasSubstr("…' has 254 characters; allowed: at most 253"));
  for (const char* none : {"node 1", "a\nb", "http://node-1", "node-1,node-2"}) {
    EXPECT_THAT(wrong(none), HasSubstr("is neither an address nor the name of a machine")) << none;
  }
  for (const char* one : {"fe80::1%eth0", "::1", "[::1]", "127.0.0.1", "node-3.cluster"}) {
    Map variables = Torchrun();
    variables["MASTER_ADDR"] = one;
    EXPECT_EQ(FindRendezvous(Bootstrap::kEnv, EnvironmentOf(variables))->host, one);
  }
  // One message names the errors in the launcher's variables and in those of the rendezvous.
  EXPECT_EQ(
      FindRendezvous(Bootstrap::kEnv, EnvironmentOf({{"RANK", "one"}, {"MASTER_PORT", "29500"}})).status().message(),
      "RANK='one' must be a rank from 0 to 1048575; WORLD_SIZE, MASTER_ADDR, WEFT_JOB_SECRET are not set "
      "(--bootstrap=env; torchrun sets them, except WEFT_JOB_SECRET: give all processes of the job the same secret, "
      "e.g. from `openssl rand -hex 32`)");
  Map variables = Torchrun();
  variables["WEFT_JOB_SECRET"] = "short";
  variables["WEFT_RENDEZVOUS_TIMEOUT"] = "soon";
  const std::string message(FindRendezvous(Bootstrap::kEnv, EnvironmentOf(variables)).status().message());
  EXPECT_THAT(message, HasSubstr("WEFT_JOB_SECRET has 5 characters; allowed: at least 16"));
  EXPECT_THAT(message, HasSubstr("WEFT_RENDEZVOUS_TIMEOUT='soon' must be a number of seconds"));
  EXPECT_THAT(std::string(FindRendezvous(Bootstrap::kAuto, EnvironmentOf({})).status().message()),
              HasSubstr("no launcher has started this process"));
}

}  // namespace
}  // namespace weft::exec
