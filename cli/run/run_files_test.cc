#include "cli/run/run_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "tests/fresh_directory.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

std::string Pipe(const std::string& folder) {
  const std::string path = folder + "/pipe";
  EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
  return path;
}

// An unnamed pipe as "/dev/fd/N", which is what /dev/stdout is in a pipeline.
struct OpenPipe {
  OpenPipe() { EXPECT_EQ(pipe(ends), 0); }
  ~OpenPipe() {
    close(ends[0]);
    close(ends[1]);
  }
  std::string name(int end) const { return "/dev/fd/" + std::to_string(ends[end]); }
  int ends[2];
};

TEST(RunFiles, InputsOfEveryProcessMustBeRegularFiles) {
  const std::string folder = FreshDirectory("run_files_read");
  const std::string file = folder + "/file", link = folder + "/link";
  ASSERT_TRUE(WriteFileAtomic(file, "x").ok());
  fs::create_symlink(file, link);
  for (const std::string& path : {std::string(), file, link, folder, folder + "/missing"}) {
    EXPECT_TRUE(CheckRead("--cluster", path).ok()) << path;
  }
  const std::string pipe = Pipe(folder);
  EXPECT_EQ(Message(CheckRead("--cluster", pipe)),
            "--cluster: " + pipe +
                ": is not a regular file; every process of a run reads it, so it cannot be a pipe or a device");
  EXPECT_FALSE(CheckRead("--cluster", "/dev/zero").ok());
  EXPECT_FALSE(CheckRead("--cluster", OpenPipe().name(0)).ok());
}

TEST(RunFiles, NobodyIsWaitedForToReadWhatIsWritten) {
  const std::string folder = FreshDirectory("run_files_written");
  const std::string pipe = Pipe(folder);
  const OpenPipe open;
  for (const auto member : {&RunFlags::trace, &RunFlags::report}) {
    RunFlags flags;
    flags.*member = pipe;
    EXPECT_THAT(Message(CheckOutputs(flags)), HasSubstr(pipe + ": is a named pipe, and weft would wait"));
    flags.*member = open.name(1);
    EXPECT_EQ(CheckOutputs(flags), absl::OkStatus());
    flags.*member = folder + "/new";
    EXPECT_EQ(CheckOutputs(flags), absl::OkStatus());
    EXPECT_FALSE(fs::exists(folder + "/new"));
    flags.*member = folder + "/missing/new";
    EXPECT_FALSE(CheckOutputs(flags).ok());
  }
  RunFlags flags;
  flags.save_weights = open.name(1);
  EXPECT_THAT(Message(CheckOutputs(flags)), HasSubstr("--save-weights: "));
  flags = RunFlags();
  flags.tuning = "write " + pipe;
  EXPECT_THAT(Message(CheckOutputs(flags)), HasSubstr("--tuning: "));
}

// `weft run --trace=/dev/stdout >pipe`: the descriptor belongs to a named pipe.
TEST(RunFiles, ANamedPipeThatIsOpenAlreadyIsWritten) {
  const std::string pipe = Pipe(FreshDirectory("run_files_open"));
  const int file = open(pipe.c_str(), O_RDWR);
  ASSERT_GE(file, 0);
  const int out = dup(STDOUT_FILENO);
  ASSERT_GE(dup2(file, STDOUT_FILENO), 0);
  const auto check = [](const std::string& path) {
    RunFlags flags;
    flags.trace = path;
    return CheckOutputs(flags);
  };
  const absl::Status written = check("/dev/stdout");
  const absl::Status by_number = check("/dev/fd/1"), of_process = check("/proc/self/fd/" + std::to_string(file));
  const absl::Status by_name = check(pipe), beside = check("/dev/fd/../../" + pipe);
  ASSERT_GE(dup2(out, STDOUT_FILENO), 0);
  close(out);
  close(file);
  EXPECT_EQ(written, absl::OkStatus());
  EXPECT_EQ(by_number, absl::OkStatus());
  EXPECT_EQ(of_process, absl::OkStatus());
  EXPECT_THAT(Message(by_name), HasSubstr("is a named pipe"));
  EXPECT_FALSE(beside.ok());
}

TEST(RunFiles, CheckpointsGoToAFolder) {
  const std::string folder = FreshDirectory("run_files_checkpoint");
  ASSERT_TRUE(WriteFileAtomic(folder + "/file", "x").ok());
  RunFlags flags;
  flags.checkpoint = folder + "/of/runs";
  EXPECT_EQ(CheckOutputs(flags), absl::OkStatus());
  EXPECT_FALSE(fs::exists(folder + "/of"));
  flags.checkpoint = folder + "/file/runs";
  EXPECT_EQ(Message(CheckOutputs(flags)),
            "--checkpoint: " + flags.checkpoint + ": cannot create: " + folder + "/file is not a folder");
  flags.checkpoint = folder + "/named";
  fs::create_directories(folder + "/named/latest");
  EXPECT_THAT(Message(CheckOutputs(flags)),
              HasSubstr("/named/latest: is a folder, but weft writes a file of this name"));
}

TEST(RunFiles, AFaultReportIsAFileOfEachRank) {
  const std::string folder = FreshDirectory("run_files_fault");
  EXPECT_EQ(CheckFaultReport("", 0), absl::OkStatus());
  EXPECT_EQ(CheckFaultReport("none", 0), absl::OkStatus());
  EXPECT_EQ(CheckFaultReport(folder + "/fault.json", 3), absl::OkStatus());
  EXPECT_EQ(Message(CheckFaultReport(folder, 3)),
            "--fault-report: " + folder + ": is a folder; give a file, e.g. " + folder + "/weft-fault.json");
  EXPECT_THAT(Message(CheckFaultReport(folder + "/missing/fault.json", 3)), HasSubstr("--fault-report: "));
  EXPECT_FALSE(HasFaultReport(folder + "/fault.json", 4));
  ASSERT_TRUE(WriteFileAtomic(folder + "/fault-3.json", "{}").ok());
  EXPECT_TRUE(HasFaultReport(folder + "/fault.json", 4));
  EXPECT_FALSE(HasFaultReport(folder + "/fault.json", 3));
  EXPECT_FALSE(HasFaultReport("", 4));
  // The report is opened after a run has failed. Opening it must not wait for a reader.
  ASSERT_EQ(mkfifo((folder + "/pipe-3.json").c_str(), 0600), 0);
  EXPECT_THAT(Message(CheckFaultReport(folder + "/pipe.json", 3)), HasSubstr("is a named pipe"));
}

}  // namespace
}  // namespace weft
