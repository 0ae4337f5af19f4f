#include "compiler/memory/arena.h"

#include <algorithm>
#include <random>
#include <vector>

#include "compiler/memory/arena_testing.h"
#include "gtest/gtest.h"
#include "proto/util/units.h"

namespace weft {
namespace {

// Checks every pair of items: items that live at the same time must not share bytes.
void ExpectValid(const std::vector<ArenaItem>& items, const Arena& arena) {
  ASSERT_EQ(arena.offsets.size(), items.size());
  int64_t height = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    EXPECT_GE(arena.offsets[i], 0);
    EXPECT_EQ(arena.offsets[i] % kArenaAlignment, 0);
    height = std::max(height, arena.offsets[i] + RoundUp(items[i].bytes, kArenaAlignment));
    for (size_t j = 0; j < i; ++j) {
      bool together = std::max(items[i].first, items[j].first) <= std::min(items[i].last, items[j].last);
      bool share = std::max(arena.offsets[i], arena.offsets[j]) <
                   std::min(arena.offsets[i] + items[i].bytes, arena.offsets[j] + items[j].bytes);
      EXPECT_FALSE(together && share) << "items " << j << " and " << i;
    }
  }
  EXPECT_EQ(arena.height, height);
  EXPECT_GE(arena.height, arena.lower_bound);
}

TEST(ArenaTest, NothingTakesNothing) {
  auto arena = PlanArena({});
  ASSERT_TRUE(arena.ok());
  EXPECT_EQ(arena->height, 0);
  EXPECT_EQ(arena->lower_bound, 0);
}

TEST(ArenaTest, ReusesBytesOfWhatEnded) {
  std::vector<ArenaItem> items = {{512, 0, 2}, {256, 2, 4}, {512, 3, 5}};
  auto arena = PlanArena(items);
  ASSERT_TRUE(arena.ok());
  ExpectValid(items, *arena);
  EXPECT_EQ(arena->height, 768);
  EXPECT_EQ(arena->offsets[0], arena->offsets[2]);
}

TEST(ArenaTest, TouchingLivesDoNotShare) {
  std::vector<ArenaItem> items = {{256, 0, 1}, {256, 1, 2}};
  auto arena = PlanArena(items);
  ASSERT_TRUE(arena.ok());
  EXPECT_EQ(arena->height, 512);
}

TEST(ArenaTest, IntervalsOfOneSizeReachTheLowerBound) {
  // 1F1B on the first of four ranks: at most four saved activations at a time.
  std::vector<ArenaItem> items;
  for (int64_t m = 0; m < 64; ++m) items.push_back({1000, 2 * m, 2 * m + 6});
  auto arena = PlanArena(items);
  ASSERT_TRUE(arena.ok());
  ExpectValid(items, *arena);
  EXPECT_EQ(arena->height, 4 * 1024);
}

TEST(ArenaTest, RandomItemsNeverOverlap) {
  constexpr int kSeed = 20260;
  std::mt19937 random(kSeed);
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  int64_t heights = 0, bounds = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<ArenaItem> items(1 + random() % 60);
    for (ArenaItem& item : items) {
      item.bytes = random() % 4 == 0 ? 256 * (random() % 40) : random() % 3000;
      item.first = random() % 50;
      item.last = item.first + random() % 20;
    }
    auto arena = PlanArena(items);
    ASSERT_TRUE(arena.ok());
    ExpectValid(items, *arena);
    EXPECT_EQ(arena->lower_bound, LargestLiveSum(items));
    EXPECT_EQ(PlanArena(items)->offsets, arena->offsets);
    heights += arena->height;
    bounds += arena->lower_bound;
  }
  // Good packing: heights are on average at most 1.2 % above the lower bound. The greedy orders alone are 2.4 % above
  // it.
  EXPECT_LT(static_cast<double>(heights), 1.012 * static_cast<double>(bounds));
}

TEST(ArenaTest, ManyItemsTakeTheFastWay) {
  std::vector<ArenaItem> items;
  for (int64_t m = 0; m < 50000; ++m) items.push_back({256 * (1 + m % 3), m, m + 8});
  auto arena = PlanArena(items);
  ASSERT_TRUE(arena.ok());
  EXPECT_GE(arena->height, arena->lower_bound);
  EXPECT_LE(arena->height, 2 * arena->lower_bound);
}

TEST(ArenaTest, RefusesImpossibleItems) {
  EXPECT_EQ(PlanArena({{{-1, 0, 0}}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(PlanArena({{{1, 3, 2}}}).status().code(), absl::StatusCode::kInvalidArgument);
  std::vector<ArenaItem> huge(3, {int64_t{1} << 61, 0, 0});
  EXPECT_EQ(PlanArena(huge).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(PlanArena({{{INT64_MAX, 0, 0}}}).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace weft
