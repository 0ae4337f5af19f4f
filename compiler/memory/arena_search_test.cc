#include "compiler/memory/arena_search.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "compiler/memory/arena_testing.h"
#include "gtest/gtest.h"
#include "proto/util/units.h"

namespace weft {
namespace {

bool Meet(const ArenaItem& a, const ArenaItem& b) { return a.first <= b.last && b.first <= a.last; }

void ExpectFits(const std::vector<ArenaItem>& items, const std::vector<int64_t>& offsets, int64_t height) {
  ASSERT_EQ(offsets.size(), items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    EXPECT_EQ(offsets[i] % kArenaAlignment, 0);
    EXPECT_GE(offsets[i], 0);
    EXPECT_LE(offsets[i] + items[i].bytes, height);
    for (size_t j = 0; j < i; ++j) {
      if (!Meet(items[i], items[j])) continue;
      EXPECT_TRUE(offsets[i] + items[i].bytes <= offsets[j] || offsets[j] + items[j].bytes <= offsets[i])
          << i << " and " << j;
    }
  }
}

// A start with all items above the height, so that the search has to find a place for each item.
std::vector<int64_t> Nowhere(const std::vector<ArenaItem>& items) {
  return std::vector<int64_t>(items.size(), int64_t{1} << 62);
}

// Returns the least height by trying first fit in every order. For every arena in which no item can be moved down, some
// order produces it, and one of these arenas is the lowest.
int64_t LeastHeight(const std::vector<ArenaItem>& items) {
  std::vector<int64_t> offsets(items.size());
  std::vector<bool> placed(items.size(), false);
  int64_t least = std::numeric_limits<int64_t>::max();
  const std::function<void(size_t, int64_t)> place = [&](size_t count, int64_t height) {
    if (height >= least) return;
    if (count == items.size()) {
      least = height;
      return;
    }
    for (size_t i = 0; i < items.size(); ++i) {
      if (placed[i]) continue;
      const int64_t bytes = RoundUp(items[i].bytes, kArenaAlignment);
      // The lowest aligned offset at which the item meets no other item.
      int64_t offset = 0;
      const auto free_at = [&](int64_t at) {
        for (size_t j = 0; j < items.size(); ++j) {
          if (placed[j] && Meet(items[i], items[j]) && at < offsets[j] + RoundUp(items[j].bytes, kArenaAlignment) &&
              offsets[j] < at + bytes) {
            return false;
          }
        }
        return true;
      };
      while (!free_at(offset)) offset += kArenaAlignment;
      offsets[i] = offset;
      placed[i] = true;
      place(count + 1, std::max(height, offset + bytes));
      placed[i] = false;
    }
  };
  place(0, 0);
  return least;
}

// A rank of zb-v with the first and the last stage. On the first stage seven microbatches wait, and an eighth while the
// oldest is worked on. In between, the last stage needs two buffers, each as large as four of these microbatches. With
// a fixed place for each of the eight, the two buffers would always lie above them: 8 + 8.3 units. In the right order
// the free place is part of one of two gaps that move through the arena: 7 + 8.3 units.
TEST(ArenaSearch, GapsOfTheSizeThatIsNeededWander) {
  constexpr int64_t kBlock = 50470912, kSaved = 209223680, kGradient = 209190912;
  std::vector<ArenaItem> items;
  for (int64_t m = 0; m < 7; ++m) items.push_back({kBlock, 2 * m, 42 + 12 * m});
  for (int64_t m = 0; m < 9; ++m) items.push_back({kBlock, 38 + 12 * m, m < 2 ? 126 + 12 * m : 128 + 10 * m});
  for (int64_t m = 0; m < 16; ++m) {
    const int64_t first = m < 4 ? 14 + 6 * m : 44 + 12 * (m - 4);
    items.push_back({kSaved, first, first + 4});
    items.push_back({kGradient, first + 2, first + 4});
    items.push_back({3 << 20, first - 1, first + 2});
  }
  const int64_t bound = LargestLiveSum(items);
  EXPECT_LT(bound, 7 * kBlock + kSaved + kGradient + (16 << 20));
  const absl::StatusOr<Arena> arena = PlanArenaOfRank(items, bound);
  ASSERT_TRUE(arena.ok());
  ExpectFits(items, arena->offsets, arena->height);
  EXPECT_LE(arena->height, bound + bound / 100);
  EXPECT_EQ(PlanArenaOfRank(items, bound)->offsets, arena->offsets);
}

TEST(ArenaSearch, FindsTheLeastHeightOfFewItems) {
  constexpr int kSeed = 20261;
  std::mt19937 random(kSeed);
  int above_bound = 0, greedy_misses = 0;
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", round " << round);
    std::vector<ArenaItem> items(2 + random() % 6);
    for (ArenaItem& item : items) {
      item.bytes = 1 + static_cast<int64_t>(random() % 8) * 256;
      item.first = static_cast<int64_t>(random() % 8);
      item.last = item.first + static_cast<int64_t>(random() % 4);
    }
    const int64_t least = LeastHeight(items);
    above_bound += least > LargestLiveSum(items) ? 1 : 0;
    greedy_misses += PlanArena(items)->height > least ? 1 : 0;
    std::optional<std::vector<int64_t>> offsets;
    for (uint32_t seed = 1; seed <= 4 && !offsets; ++seed) offsets = FitArena(items, least, Nowhere(items), seed);
    ASSERT_TRUE(offsets.has_value());
    ExpectFits(items, *offsets, least);
  }
  RecordProperty("above_bound", above_bound);
  RecordProperty("greedy_misses", greedy_misses);
}

TEST(ArenaSearch, NothingLiesBelowTheBound) {
  const std::vector<ArenaItem> items = {{512, 0, 2}, {256, 1, 3}, {300, 2, 4}, {256, 3, 5}};
  EXPECT_FALSE(FitArena(items, LargestLiveSum(items) - kArenaAlignment, Nowhere(items), 1).has_value());
  EXPECT_FALSE(FitArena(items, 0, Nowhere(items), 1).has_value());
}

TEST(ArenaSearch, RandomItemsLieApartBelowTheHeight) {
  constexpr int kSeed = 3;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", round " << round);
    std::vector<ArenaItem> items;
    const int n = 1 + static_cast<int>(random() % 40);
    for (int i = 0; i < n; ++i) {
      ArenaItem item{static_cast<int64_t>(random() % 9) * 100 * (random() % 3 == 0 ? 50 : 1),
                     static_cast<int64_t>(random() % 30), 0};
      item.last = item.first + static_cast<int64_t>(random() % 10);
      items.push_back(item);
    }
    // Not a multiple of the alignment.
    const int64_t height = LargestLiveSum(items) + LargestLiveSum(items) / 5 + 3;
    const auto offsets = FitArena(items, height, Nowhere(items), 7);
    ASSERT_TRUE(offsets.has_value());
    ExpectFits(items, *offsets, height);
    EXPECT_EQ(FitArena(items, height, Nowhere(items), 7), offsets);
  }
}

TEST(ArenaSearch, NothingTakesNothing) {
  EXPECT_TRUE(FitArena({}, 0, {}, 1).has_value());
  const std::vector<ArenaItem> empty = {{0, 0, 3}};
  EXPECT_TRUE(FitArena(empty, 0, {0}, 1).has_value());
}

TEST(ArenaSearch, HostileSizesDoNotOverflow) {
  constexpr int64_t kHuge = int64_t{1} << 61;
  const std::vector<ArenaItem> items = {{kHuge, 0, 1}, {kHuge, 1, 2}, {kHuge, 2, 3}};
  const auto offsets = FitArena(items, int64_t{1} << 62, Nowhere(items), 1);
  ASSERT_TRUE(offsets.has_value());
  ExpectFits(items, *offsets, int64_t{1} << 62);
  EXPECT_FALSE(FitArena(items, kHuge, Nowhere(items), 1).has_value());
  // The sum of the bytes beside the arena and the live bytes exceeds int64.
  const std::vector<ArenaItem> two = {{kHuge, 0, 1}, {kHuge / 2, 1, 2}, {kHuge / 4, 2, 3}};
  const absl::StatusOr<Arena> arena = PlanArenaOfRank(two, std::numeric_limits<int64_t>::max());
  ASSERT_TRUE(arena.ok());
  ExpectFits(two, arena->offsets, arena->height);
}

}  // namespace
}  // namespace weft
