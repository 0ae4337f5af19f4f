#include "cli/process/small_blocks.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace weft {
namespace {

// Builds with sanitizers keep the sanitizer's own allocator.
bool Replaced() { return SmallBlockBytes() > 0; }

struct Block {
  unsigned char* bytes = nullptr;
  size_t size = 0;
  unsigned char mark = 0;
};

Block Make(size_t size, unsigned char mark) {
  Block block = {static_cast<unsigned char*>(::operator new(size)), size, mark};
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block.bytes) % 16, 0u) << size;
  std::memset(block.bytes, mark, size);
  return block;
}

void Check(const Block& block) {
  for (size_t i = 0; i < block.size; ++i) ASSERT_EQ(block.bytes[i], block.mark) << block.size << " at " << i;
}

TEST(SmallBlocks, BlocksDoNotMeet) {
  std::mt19937_64 random(1);
  std::vector<Block> blocks;
  for (int round = 0; round < 200000; ++round) {
    if (blocks.size() < 3000 || random() % 2 == 0) {
      // Includes sizes around the largest small block.
      blocks.push_back(Make(random() % (random() % 8 == 0 ? 1500 : 600), static_cast<unsigned char>(random())));
      continue;
    }
    std::swap(blocks[random() % blocks.size()], blocks.back());
    Check(blocks.back());
    if (random() % 2 == 0) {
      ::operator delete(blocks.back().bytes);
    } else {
      ::operator delete(blocks.back().bytes, blocks.back().size);
    }
    blocks.pop_back();
  }
  for (const Block& block : blocks) {
    Check(block);
    ::operator delete(block.bytes);
  }
}

TEST(SmallBlocks, FreedBlocksAreUsedAgain) {
  if (!Replaced()) GTEST_SKIP() << "nothing is replaced here";
  const auto use = [] {
    for (int i = 0; i < 100000; ++i) {
      for (const size_t size : {size_t{1}, size_t{24}, size_t{512}}) delete[] new char[size];
    }
  };
  use();
  const size_t before = SmallBlockBytes();
  for (int i = 0; i < 20; ++i) use();
  EXPECT_EQ(SmallBlockBytes(), before);
}

TEST(SmallBlocks, ThreadsGiveEachOtherBlocks) {
  std::vector<std::unique_ptr<std::string>> made(20000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&made, t] {
      for (size_t i = t; i < made.size(); i += 4) made[i] = std::make_unique<std::string>(i % 300, 'a' + t);
    });
  }
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&made, t] {
      // Free the strings that another thread made.
      for (size_t i = (t + 1) % 4; i < made.size(); i += 4) {
        EXPECT_EQ(*made[i], std::string(i % 300, 'a' + (t + 1) % 4));
        made[i].reset();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SmallBlocks, OtherAlignmentsAreKept) {
  struct alignas(64) Wide {
    char bytes[64];
  };
  for (int i = 0; i < 100; ++i) {
    const auto wide = std::make_unique<Wide>();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(wide.get()) % 64, 0u);
  }
  ::operator delete(nullptr);
}

}  // namespace
}  // namespace weft
