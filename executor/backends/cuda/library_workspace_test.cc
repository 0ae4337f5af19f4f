#include "executor/backends/cuda/library_workspace.h"

#include <gtest/gtest.h>

namespace weft::exec::cuda {
namespace {

TEST(LibraryWorkspace, TheFirstStreamGetsWhatWasReserved) {
  const auto device = MakeHostDevice();
  LibraryWorkspace workspace(device.get());
  EXPECT_EQ(*workspace.Settle(), nullptr);
  workspace.Reserve(600);
  workspace.Reserve(1000);
  workspace.Reserve(500);
  // Nothing is allocated before Settle, because only then is the size known.
  EXPECT_EQ(workspace.allocated_bytes(), 0);
  const auto settled = workspace.Settle();
  ASSERT_TRUE(settled.ok());
  EXPECT_EQ(*workspace.Settle(), *settled);
  EXPECT_EQ(workspace.allocated_bytes(), 1000);
  const auto first = workspace.Get(3, 1000);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*first, *settled);
  EXPECT_EQ(workspace.allocated_bytes(), 1000);
  EXPECT_EQ(*workspace.Get(3, 200), *first);
  EXPECT_EQ(*workspace.Get(3, 0), *first);
  // Streams do not share a block.
  const auto second = workspace.Get(4, 10);
  ASSERT_TRUE(second.ok());
  EXPECT_NE(*second, *first);
  EXPECT_EQ(workspace.allocated_bytes(), 2000);
}

TEST(LibraryWorkspace, GrowsWhenItMust) {
  const auto device = MakeHostDevice();
  LibraryWorkspace workspace(device.get());
  const auto small = workspace.Get(0, 100);
  ASSERT_TRUE(small.ok());
  workspace.Reserve(1000);
  EXPECT_EQ(*workspace.Get(0, 200), *small);  // 256 bytes are the minimum
  const auto large = workspace.Get(0, 300);
  ASSERT_TRUE(large.ok());
  EXPECT_NE(*large, *small);
  EXPECT_EQ(*workspace.Get(0, 1000), *large);
}

}  // namespace
}  // namespace weft::exec::cuda
