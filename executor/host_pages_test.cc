#include "executor/host_pages.h"

#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace weft {
namespace {

// How many of the small pages are in memory.
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
    // There is nothing any more.
    EXPECT_EQ(Resident(memory, 4096), -1);
  }
}

TEST(HostPages, NullWhereThereIsNoRoom) { EXPECT_EQ(MapHostPages(int64_t{1} << 60), nullptr); }

}  // namespace
}  // namespace weft
