#include "cli/process/large_pages.h"

#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace weft {
namespace {

// True if the kernel reports the request for large pages: "VmFlags: ... hg ..." for a part of the heap.
bool HeapIsOfLargePages() {
  std::ifstream maps("/proc/self/smaps");
  bool heap = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) heap = line.find("[heap]") != std::string::npos;
    if (heap && line.rfind("VmFlags:", 0) == 0 && (line + " ").find(" hg ") != std::string::npos) return true;
  }
  return false;
}

TEST(LargePagesTest, TheHeapAsksForThem) {
  std::ifstream enabled("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string modes;
  if (!std::getline(enabled, modes)) GTEST_SKIP() << "the kernel has no large pages";
  EXPECT_FALSE(HeapIsOfLargePages());
  const void* const before = sbrk(0);
  UseLargePages();
  if (sbrk(0) == before) GTEST_SKIP() << "the allocator is not glibc's";
  EXPECT_TRUE(HeapIsOfLargePages());
  // The heap works as before, also for blocks larger than a step.
  for (const size_t bytes : {size_t{1}, size_t{4} << 20, size_t{48} << 20, size_t{200} << 20}) {
    const auto block = std::make_unique<char[]>(bytes);
    block[bytes - 1] = 1;
    EXPECT_EQ(block[bytes / 2], bytes == 1);
  }
}

}  // namespace
}  // namespace weft
