#include "executor/backends/cuda/idle_memory.h"

#include <gtest/gtest.h>

namespace weft::exec::cuda {
namespace {

TEST(IdleMemory, IsHandedOutInTurnAndFromTheBeginningAgain) {
  alignas(256) std::byte bytes[1024];
  IdleMemory memory(bytes, sizeof bytes);
  EXPECT_EQ(memory.Take(300), bytes);
  EXPECT_EQ(memory.Take(100), bytes + 512);
  EXPECT_EQ(memory.TakeApart(300), nullptr);
  EXPECT_EQ(memory.touched(), 612);
  // Fewer than 600 bytes are left, so Take starts again at the beginning.
  EXPECT_EQ(memory.Take(600), bytes);
  EXPECT_EQ(memory.TakeApart(256), bytes + 768);
  EXPECT_EQ(memory.TakeApart(1), nullptr);
  EXPECT_EQ(memory.touched(), 1024);
  EXPECT_EQ(memory.Take(1025), nullptr);
  memory.Begin();
  EXPECT_EQ(memory.Take(0), bytes);
}

TEST(IdleMemory, None) {
  IdleMemory memory(nullptr, 100);
  EXPECT_TRUE(memory.empty());
  EXPECT_EQ(memory.Take(1), nullptr);
  EXPECT_EQ(memory.TakeApart(1), nullptr);
  EXPECT_EQ(memory.touched(), 0);
}

}  // namespace
}  // namespace weft::exec::cuda
