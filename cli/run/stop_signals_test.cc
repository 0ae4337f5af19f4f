#include "cli/run/stop_signals.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "executor/platform/folder_lock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

// Runs `body` in a child process and returns how the child ended, as waitpid reports it.
int Ended(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST(StopSignals, TheFirstAsksToStop) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    const int status = Ended([number] {
      CatchStopSignals();
      if (stop_requested) return 1;
      raise(number);
      return stop_requested ? 0 : 2;
    });
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << number << ": " << status;
  }
}

TEST(StopSignals, AnotherOneStillAsksAndTheSameEnds) {
  const int status = Ended([] {
    CatchStopSignals();
    raise(SIGTERM);
    raise(SIGINT);
    if (!stop_requested) return 1;
    raise(SIGINT);
    return 2;
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
}

TEST(StopSignals, SecondSignalRemovesEmptyFolders) {
  const std::string folder = testing::TempDir() + "/signals/checkpoints";
  const int status = Ended([&] {
    CatchStopSignals();
    const absl::StatusOr<exec::FolderLock> lock = exec::FolderLock::Take(folder);
    if (!lock.ok() || !std::filesystem::exists(folder)) return 1;
    raise(SIGINT);
    if (!std::filesystem::exists(folder)) return 2;
    raise(SIGINT);
    return 3;
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
  EXPECT_FALSE(std::filesystem::exists(testing::TempDir() + "/signals"));
}

TEST(StopSignals, IgnoredHangupStaysIgnored) {
  const int status = Ended([] {
    ::signal(SIGHUP, SIG_IGN);
    CatchStopSignals();
    raise(SIGHUP);
    // As if nobody read the output.
    raise(SIGPIPE);
    // As if a file had reached the limit of ulimit -f.
    raise(SIGXFSZ);
    return stop_requested ? 1 : 0;
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace weft
