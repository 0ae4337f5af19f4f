#include "executor/platform/memory_left.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>

#include "gtest/gtest.h"

namespace weft::exec {
namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

// The memory left on a machine with these files.
int64_t LeftWith(const std::map<std::string, std::string>& files) {
  const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / "memory_left";
  std::filesystem::remove_all(root);
  for (const auto& [path, content] : files) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << content;
  }
  return MemoryLeft(root.string());
}

TEST(MemoryLeft, IsWhatTheMachineHas) {
  EXPECT_EQ(LeftWith({{"proc/meminfo", "MemTotal:       24684092 kB\nMemFree: 1 kB\nMemAvailable:      2000 kB\n"}}),
            2000 * 1024);
}

TEST(MemoryLeft, NothingReadableIsNoLimit) {
  EXPECT_EQ(LeftWith({}), kUnknown);
  for (const char* line : {"", "MemAvailable:", "MemAvailable: kB", "MemAvailable: many kB", "MemAvailable: -5 kB",
                           "MemAvailable: 5 MB", "MemAvailable: 9223372036854775807 kB", "MemAvailable: 5 5 kB"}) {
    EXPECT_EQ(LeftWith({{"proc/meminfo", line}}), kUnknown) << line;
  }
  for (const char* line : {"", "0", "0:", "0::", "0::job", "7:memory:", ":::::", "1:cpu:/job"}) {
    EXPECT_EQ(LeftWith({{"proc/self/cgroup", line},
                        {"sys/fs/cgroup/memory.max", "5000"},
                        {"sys/fs/cgroup/memory.current", "4000"}}),
              kUnknown)
        << line;
  }
  for (const char* limit : {"", "max", "5000 bytes", "-1", "99999999999999999999"}) {
    EXPECT_EQ(LeftWith({{"proc/self/cgroup", "0::/"},
                        {"sys/fs/cgroup/memory.max", limit},
                        {"sys/fs/cgroup/memory.current", "4000"}}),
              kUnknown)
        << limit;
  }
  // There is a limit, but no file that states how much is used.
  EXPECT_EQ(LeftWith({{"proc/self/cgroup", "0::/"}, {"sys/fs/cgroup/memory.max", "5000"}}), kUnknown);
}

TEST(MemoryLeft, IsWhatTheTightestGroupLeaves) {
  std::map<std::string, std::string> files = {
      {"proc/meminfo", "MemAvailable: 1000 kB\n"},      {"proc/self/cgroup", "0::/jobs/one\n"},
      {"sys/fs/cgroup/jobs/one/memory.max", "50000\n"}, {"sys/fs/cgroup/jobs/one/memory.current", "40000\n"},
      {"sys/fs/cgroup/jobs/memory.max", "max\n"},       {"sys/fs/cgroup/jobs/memory.current", "70000\n"}};
  EXPECT_EQ(LeftWith(files), 10000);
  files["sys/fs/cgroup/jobs/memory.max"] = "73000\n";
  EXPECT_EQ(LeftWith(files), 3000);
  // The machine may have less memory left than the control group allows.
  files["proc/meminfo"] = "MemAvailable: 2 kB\n";
  EXPECT_EQ(LeftWith(files), 2048);
  // A limit may be set below the memory that is already used.
  files["sys/fs/cgroup/jobs/memory.max"] = "60000\n";
  EXPECT_EQ(LeftWith(files), 0);
}

TEST(MemoryLeft, PagesOfFilesThatNobodyUsesAreLeft) {
  std::map<std::string, std::string> files = {
      {"proc/self/cgroup", "0::/"},
      {"sys/fs/cgroup/memory.max", "5000"},
      {"sys/fs/cgroup/memory.current", "4000"},
      {"sys/fs/cgroup/memory.stat", "anon 900\ninactive_file 2500\nactive_file 600\n"}};
  EXPECT_EQ(LeftWith(files), 3500);
  // memory.stat may be read a moment later than memory.current. The result is never more than the limit.
  files["sys/fs/cgroup/memory.stat"] = "inactive_file 4100\n";
  EXPECT_EQ(LeftWith(files), 5000);
  files["sys/fs/cgroup/memory.stat"] = "inactive_file few\n";
  EXPECT_EQ(LeftWith(files), 1000);
}

// In version 1 each controller has its own group, 9223372036854771712 means no limit, and total_* figures include the
// groups within.
TEST(MemoryLeft, ReadsCgroupVersion1) {
  std::map<std::string, std::string> files = {
      {"proc/self/cgroup", "9:cpu,cpuacct:/\n4:hugetlb,memory:/docker/ab:c\n0::/\n"},
      {"sys/fs/cgroup/memory/docker/ab:c/memory.limit_in_bytes", "8000\n"},
      {"sys/fs/cgroup/memory/docker/ab:c/memory.usage_in_bytes", "7000\n"},
      {"sys/fs/cgroup/memory/docker/ab:c/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n"},
      {"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
      {"sys/fs/cgroup/memory/memory.usage_in_bytes", "9000000\n"}};
  EXPECT_EQ(LeftWith(files), 1500);
  // Inside the container, its group is the mount itself.
  files = {{"proc/self/cgroup", "4:memory:/docker/ab\n"},
           {"sys/fs/cgroup/memory/memory.limit_in_bytes", "8000\n"},
           {"sys/fs/cgroup/memory/memory.usage_in_bytes", "7000\n"}};
  EXPECT_EQ(LeftWith(files), 1000);
  // Version 2 is mounted beside version 1 and controls the memory.
  files = {{"proc/self/cgroup", "1:cpu:/\n0::/job\n"},
           {"sys/fs/cgroup/unified/job/memory.max", "800\n"},
           {"sys/fs/cgroup/unified/job/memory.current", "700\n"}};
  EXPECT_EQ(LeftWith(files), 100);
}

// Every machine that runs this test has some memory left, and less than the largest number.
TEST(MemoryLeft, ReadsThisMachine) {
  EXPECT_GT(MemoryLeft(), 0);
  EXPECT_LT(MemoryLeft(), kUnknown);
}

}  // namespace
}  // namespace weft::exec
