#include "executor/platform/folder_lock.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

// Called by the next removal of a folder before it reads the name.
std::function<void()> before_removal;

}  // namespace

// Replaces the system's rmdir in this program.
extern "C" int rmdir(const char* path) noexcept {
  if (const auto first = std::exchange(before_removal, nullptr)) first();
  return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

namespace weft::exec {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

TEST(FolderLock, IsForOneAtATime) {
  const std::string folder = testing::TempDir() + "/one/of/them";
  absl::StatusOr<FolderLock> first = FolderLock::Take(folder);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(std::string(FolderLock::Take(folder).status().message()),
              AllOf(HasSubstr(folder), HasSubstr("another run")));
  EXPECT_TRUE(FolderLock::Take(folder + "-other").ok());
  {
    // The object that was moved to holds the lock.
    std::optional<FolderLock> second = *std::move(first);
    EXPECT_FALSE(FolderLock::Take(folder).ok());
  }
  EXPECT_TRUE(FolderLock::Take(folder).ok());
}

TEST(FolderLock, TakesAwayWhatItHasMadeAndNobodyHasUsed) {
  const std::string there = testing::TempDir() + "/there";
  ASSERT_TRUE(fs::create_directory(there));
  for (const char* below : {"", "/a", "/a/b/c", "/a/b/"}) {
    {
      EXPECT_TRUE(FolderLock::Take(there + below).ok()) << below;
    }
    EXPECT_TRUE(fs::is_empty(there)) << below;
  }
  {
    const absl::StatusOr<FolderLock> lock = FolderLock::Take(there + "/a/b/c");
    ASSERT_TRUE(lock.ok()) << lock.status();
    ASSERT_TRUE(fs::create_directory(there + "/a/b/step-1"));
  }
  EXPECT_TRUE(fs::exists(there + "/a/b/step-1"));
  EXPECT_FALSE(fs::exists(there + "/a/b/c"));
  // If a folder cannot be made, no folder above it is left behind. (Root may write anywhere, but not below a file.)
  ASSERT_TRUE(fs::remove_all(there + "/a") > 0);
  ASSERT_TRUE(FolderLock::Take(there + "/" + std::string(300, 'n')).status().code() != absl::StatusCode::kOk);
  ASSERT_TRUE(FolderLock::Take(there + "/a/" + std::string(300, 'n')).status().code() != absl::StatusCode::kOk);
  EXPECT_TRUE(fs::is_empty(there));
  // A lock that is replaced by another is released.
  absl::StatusOr<FolderLock> first = FolderLock::Take(there + "/first");
  ASSERT_TRUE(first.ok());
  *first = *FolderLock::Take(there + "/second");
  EXPECT_FALSE(fs::exists(there + "/first"));
  EXPECT_TRUE(fs::exists(there + "/second"));
}

TEST(FolderLock, GoesWithItsProcess) {
  const std::string folder = testing::TempDir() + "/killed";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const absl::StatusOr<FolderLock> lock = FolderLock::Take(folder);
    const char ok = lock.ok() ? 1 : 0;
    if (write(ready[1], &ok, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char ok = 0;
  ASSERT_EQ(read(ready[0], &ok, 1), 1);
  ASSERT_EQ(ok, 1);
  EXPECT_FALSE(FolderLock::Take(folder).ok());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(FolderLock::Take(folder).ok());
}

TEST(FolderLock, ASignalThatEndsTheProcessLeavesNoEmptyFolder) {
  const std::string there = testing::TempDir() + "/signalled";
  ASSERT_TRUE(fs::create_directory(there));
  {
    // Moving a lock does not lose its folders.
    FolderLock lock;
    lock = *FolderLock::Take(there + "/a/b");
    RemoveUnusedFolders();
    EXPECT_TRUE(fs::is_empty(there));
  }
  {
    const absl::StatusOr<FolderLock> lock = FolderLock::Take(there + "/a/b");
    ASSERT_TRUE(fs::create_directory(there + "/a/step-1"));
    RemoveUnusedFolders();
    EXPECT_FALSE(fs::exists(there + "/a/b"));
    EXPECT_TRUE(fs::exists(there + "/a/step-1"));
  }
  // A lock that no longer exists removes nothing.
  ASSERT_TRUE(fs::create_directory(there + "/a/b"));
  RemoveUnusedFolders();
  EXPECT_TRUE(fs::exists(there + "/a/b"));
  // A lock does not remove a folder that existed before the lock.
  const absl::StatusOr<FolderLock> lock = FolderLock::Take(there + "/a/b");
  RemoveUnusedFolders();
  EXPECT_TRUE(fs::exists(there + "/a/b"));
}

// After RemoveUnusedFolders has found a name and before it reads it, a lock is released and its memory is reused.
TEST(FolderLock, ASignalReadsNoNameThatIsGone) {
  const std::string there = testing::TempDir() + "/a folder whose name is longer than what a string holds in itself";
  ASSERT_TRUE(fs::create_directory(there));
  std::optional<FolderLock> lock = *FolderLock::Take(there + "/made");
  // This name is as long as the one that is released.
  const std::string kept = there + "/kept";
  ASSERT_TRUE(fs::create_directory(kept));
  std::vector<std::string> others;
  others.reserve(100);
  before_removal = [&] {
    lock.reset();
    for (int i = 0; i < 100; ++i) others.push_back(kept);
  };
  RemoveUnusedFolders();
  EXPECT_EQ(others.size(), 100u);
  EXPECT_FALSE(fs::exists(there + "/made"));
  EXPECT_TRUE(fs::exists(kept));
}

TEST(FolderLock, NeedsAFolder) {
  EXPECT_THAT(std::string(FolderLock::Take("/dev/null/x").status().message()), HasSubstr("/dev/null/x: cannot create"));
}

}  // namespace
}  // namespace weft::exec
