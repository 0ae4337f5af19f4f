#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace weft {
namespace {

[[gnu::noinline]] void ThrowAt(int depth) {
  if (depth == 0) throw std::runtime_error("from below");
  // Every frame has an object to destroy.
  const std::string kept(100, static_cast<char>('a' + depth % 26));
  ThrowAt(depth - 1);
  ASSERT_EQ(kept.size(), 100);
}

TEST(GlibcCompatTest, ThrownExceptionsAreCaught) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int depth = 0; depth < 100; ++depth) {
        std::string caught;
        try {
          ThrowAt(depth);
        } catch (const std::exception& error) {
          caught = error.what();
        }
        EXPECT_EQ(caught, "from below");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Thrown by libstdc++ itself.
  EXPECT_THROW(std::string().at(3), std::out_of_range);
}

TEST(GlibcCompatTest, RandomDeviceWorks) {
  std::random_device device;
  std::set<unsigned> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(device());
  EXPECT_GT(seen.size(), 990);
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
TEST(GlibcCompatTest, ObjectsAreFound) {
  const void* in_libc = dlsym(RTLD_DEFAULT, "printf");
  for (const void* address : {reinterpret_cast<const void*>(&ThrowAt), in_libc}) {
    dl_find_object found = {};
    ASSERT_EQ(_dl_find_object(const_cast<void*>(address), &found), 0);
    EXPECT_LE(found.dlfo_map_start, address);
    EXPECT_GT(found.dlfo_map_end, address);
    ASSERT_NE(found.dlfo_eh_frame, nullptr);
    // .eh_frame_hdr begins with the version of its table.
    EXPECT_EQ(*static_cast<const unsigned char*>(found.dlfo_eh_frame), 1);
    Dl_info info;
    ASSERT_NE(dladdr(address, &info), 0);
    EXPECT_EQ(reinterpret_cast<void*>(found.dlfo_link_map->l_addr), info.dli_fbase);
    // glibc's own function would give the loader's record, with a name. This test is linked with weft-run's function.
    EXPECT_EQ(found.dlfo_link_map->l_name, nullptr);
  }
  dl_find_object found = {};
  EXPECT_EQ(_dl_find_object(reinterpret_cast<void*>(16), &found), -1);
}
#endif

}  // namespace
}  // namespace weft
