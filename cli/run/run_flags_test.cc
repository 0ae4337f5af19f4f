#include "cli/run/run_flags.h"

#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

// The error for this command line; empty if it is accepted.
std::string Error(std::vector<std::string> args, RunFlags* f) {
  Flags flags("weft run", "PROGRAM [flags]", "Trains.");
  DeclareRunFlags(flags, *f);
  args.push_back("program.weft");
  absl::Status status = flags.Parse(args, 1, 1);
  if (status.ok()) status = CheckRunFlags(flags, *f);
  EXPECT_TRUE(status.ok() || IsUsageError(status)) << status;
  return std::string(status.message());
}
std::string Error(const std::vector<std::string>& args) {
  RunFlags f;
  return Error(args, &f);
}

TEST(RunFlags, TimeoutsAreSeconds) {
  RunFlags f;
  EXPECT_EQ(Error({"--data=d", "--timeout=0.000001"}, &f), "");
  EXPECT_EQ(f.timeout, 1e-6);
  EXPECT_EQ(Error({"--data=d", "--timeout=1e6"}, &f), "");
  for (const char* less : {"1e-9", "0", "-3", "-inf"}) {
    EXPECT_THAT(Error({"--data=d", std::string("--timeout=") + less}),
                HasSubstr("allowed: 0.000001 to 1000000 seconds, nearest valid: 0.000001"));
  }
  for (const char* more : {"1000001", "inf", "1e400"}) {
    EXPECT_THAT(Error({"--data=d", std::string("--timeout=") + more}), HasSubstr("nearest valid: 1000000"));
  }
  for (const char* none : {"soon", "", "nan", "010", "+5"}) {
    EXPECT_THAT(Error({"--data=d", std::string("--timeout=") + none}), HasSubstr("expected seconds from 0.000001"));
  }
}

TEST(RunFlags, ANumberOfStepsIsAskedForByName) {
  RunFlags f;
  EXPECT_EQ(Error({"--data=d", "--checkpoint=c", "--resume-step=0"}, &f), "");
  EXPECT_EQ(f.resume_step, 0);
  EXPECT_TRUE(f.resume);
  for (const char* wrong : {"-1", "two", "1.5", "03", "+3"}) {
    EXPECT_THAT(Error({"--data=d", "--checkpoint=c", std::string("--resume-step=") + wrong}),
                HasSubstr("expected the number of steps of a checkpoint, from 0"));
  }
  // Without --resume-step the newest checkpoint is used, not the one of step 0.
  Flags flags("weft run", "PROGRAM [flags]", "Trains.");
  DeclareRunFlags(flags, f);
  EXPECT_THAT(flags.Help(), HasSubstr("after N steps instead of the newest\n"));
}

TEST(RunFlags, RefusesFlagsWithoutTheFlagTheyNeed) {
  EXPECT_THAT(Error({}), HasSubstr("--data FILE is required"));
  EXPECT_EQ(Error({"--data=d", "--eval-data=e"}), "--eval-data needs --eval-every N");
  EXPECT_EQ(Error({"--data=d", "--eval-every=2"}), "--eval-every needs --eval-data FILE");
  for (const char* flag : {"--resume", "--resume-step=3", "--checkpoint-every=3", "--keep=3"}) {
    EXPECT_THAT(Error({"--data=d", flag}), HasSubstr("need --checkpoint DIR")) << flag;
  }
  EXPECT_THAT(Error({"--data=d", "--trace-steps=3"}), HasSubstr("--trace-steps needs --trace=FILE"));
  EXPECT_THAT(Error({"--data=d", "--checkpoint=c", "--resume", "--weights=w"}), HasSubstr("give one of them"));
  EXPECT_THAT(Error({"--data=d", "--cluster=c", "--predicted=p"}), HasSubstr("give one of them"));
}

TEST(RunFlags, FoldersOfLibrariesAreThere) {
  const std::string folder = testing::TempDir();
  const std::string file = folder + "/run_flags_test.so";
  std::ofstream(file) << "no library";
  EXPECT_TRUE(CheckLibraryPath({}).ok());
  EXPECT_TRUE(CheckLibraryPath({folder, "/"}).ok());
  const absl::Status missing = CheckLibraryPath({folder, folder + "/nodir"});
  EXPECT_EQ(missing.message(), "--lib-path: " + folder + "/nodir: there is no such folder");
  // A path that is not a folder is not a usage error, just like a missing file: the command line itself is correct.
  EXPECT_FALSE(IsUsageError(missing));
  EXPECT_EQ(CheckLibraryPath({file}).message(), "--lib-path: " + file + ": is not a folder");
}

TEST(RunFlags, Failures) {
  const auto failure = ParseFailure("1:2:3:kill");
  ASSERT_TRUE(failure.ok());
  EXPECT_EQ(failure->rank, 1);
  EXPECT_EQ(failure->repetition, 2);
  EXPECT_EQ(failure->action, 3);
  EXPECT_TRUE(failure->kill);
  EXPECT_FALSE(failure->stall || failure->flip);
  for (const char* wrong :
       {"", "1:2", "1:2:3:4:5", "1:2:3:die", "x:2:3", "-1:2:3", "1:-2:3", "1:2:-3", "1:2:9999999999"}) {
    EXPECT_THAT(std::string(ParseFailure(wrong).status().message()),
                HasSubstr("expected RANK:STEP:ACTION[:kill|:stall|:flip]"))
        << wrong;
  }
  // The form of the value is checked before anything is read.
  EXPECT_THAT(Error({"--data=d", "--inject-failure=1:2"}), HasSubstr("expected RANK:STEP:ACTION"));
  EXPECT_THAT(Error({"--data=d", "--inject-failure=1:02:+3"}), HasSubstr("expected RANK:STEP:ACTION"));
  EXPECT_EQ(Error({"--data=d", "--inject-failure=1000:0:0"}), "");
}

TEST(RunFlags, WordsThatAreNoChoice) {
  EXPECT_THAT(Error({"--data=d", "--tuning=on"}), HasSubstr("allowed: off, 'write FILE', 'read FILE'"));
  EXPECT_THAT(Error({"--data=d", "--token-type=uint8"}), HasSubstr("allowed: uint16, uint32, bytes"));
  EXPECT_EQ(Error({"--data=d", "--token-type=bytes"}), "");
  for (const char* gpu : {"gpu", "GPU", "nvidia"}) {
    EXPECT_THAT(Error({"--data=d", std::string("--backend=") + gpu}), HasSubstr("nearest valid: cuda")) << gpu;
  }
  EXPECT_EQ(Error({"--data=d", "--bootstrap=none"}), "");
  EXPECT_THAT(Error({"--data=d", "--steps=0"}), HasSubstr("nearest valid: 1"));
}

}  // namespace
}  // namespace weft
