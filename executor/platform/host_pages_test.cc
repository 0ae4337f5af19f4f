#include "executor/platform/host_pages.h"

#include <sys/mman.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace weft::exec {
namespace {

// Returns the number of the small pages that are in memory.
int64_t Resident(void* memory, int64_t bytes) {
  std::vector<unsigned char> pages((bytes + 4095) / 4096);
  if (mincore(memory, static_cast<size_t>(bytes), pages.data()) != 0) return -1;
  int64_t resident = 0;
  for (const unsigned char page : pages) resident += page & 1;
  return resident;
}

TEST(HostPages, AreZeroAndThere) {
  for (const int64_t bytes : {int64_t{1}, int64_t{4096}, (int64_t{2} << 20) + 1, int64_t{150} << 20}) {
    SCOPED_TRACE(bytes);
    char* const memory = static_cast<char*>(MapHostPages(bytes));
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % (2 << 20), 0u);
    EXPECT_EQ(Resident(memory, bytes), (bytes + 4095) / 4096);
    for (int64_t i = 0; i < bytes; i += 1000) ASSERT_EQ(memory[i], 0) << i;
    std::memset(memory, 7, static_cast<size_t>(bytes));
    EXPECT_EQ(memory[bytes - 1], 7);
    UnmapHostPages(memory, bytes);
    // Nothing is mapped at this address any more.
    EXPECT_EQ(Resident(memory, 4096), -1);
  }
}

// Pages of this process that are in memory.
int64_t ResidentPages() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident;
}

TEST(HostPages, NullWhereThereIsNoRoom) { EXPECT_EQ(MapHostPages(int64_t{1} << 60), nullptr); }

TEST(HostPages, NothingIsTouchedOfWhatIsMoreThanIsLeft) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  const auto left = [](int64_t bytes) { return [bytes] { return bytes; }; };
  EXPECT_EQ(MapHostPages(kBytes, left(kBytes - 1)), nullptr);
  EXPECT_EQ(MapHostPages(kBytes, left(0)), nullptr);
  void* const memory = MapHostPages(kBytes, left(kBytes));
  ASSERT_NE(memory, nullptr);
  UnmapHostPages(memory, kBytes);
  const int64_t before = ResidentPages();
  std::vector<int64_t> there;
  EXPECT_EQ(MapHostPages(kBytes,
                         [&] {
                           there.push_back(ResidentPages() - before);
                           return kBytes / 2;
                         }),
            nullptr);
  ASSERT_EQ(there.size(), 1u);
  EXPECT_LT(there[0], 1000);
  EXPECT_LT(ResidentPages() - before, 1000);
}

// Another process takes memory meanwhile: the pages that were touched are given back.
TEST(HostPages, ReturnsPagesIfMemoryShrinksMeanwhile) {
  constexpr int64_t kBytes = int64_t{264} << 20;
  const int64_t before = ResidentPages();
  std::vector<int64_t> there;
  EXPECT_EQ(MapHostPages(kBytes,
                         [&] {
                           there.push_back(ResidentPages() - before);
                           return there.size() == 1 ? kBytes : int64_t{4} << 20;
                         }),
            nullptr);
  ASSERT_EQ(there.size(), 2u);
  EXPECT_LT(there[0], 1000);
  EXPECT_GT(there[1], (int64_t{256} << 20) / 4096 - 1000);
  EXPECT_LT(ResidentPages() - before, 1000);
  // The check compares the memory that is left with the bytes that are still to be touched, not with all bytes.
  std::vector<int64_t> rest = {int64_t{8} << 20, kBytes};
  void* const memory = MapHostPages(kBytes, [&] {
    if (rest.empty()) return int64_t{0};
    const int64_t left = rest.back();
    rest.pop_back();
    return left;
  });
  ASSERT_NE(memory, nullptr);
  EXPECT_TRUE(rest.empty());
  UnmapHostPages(memory, kBytes);
}

}  // namespace
}  // namespace weft::exec
