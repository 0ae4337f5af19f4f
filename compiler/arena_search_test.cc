#include "compiler/arena_search.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace weft {
namespace {

int64_t Bound(const std::vector<ArenaItem>& items) {
  int64_t most = 0;
  for (const ArenaItem& at : items) {
    int64_t live = 0;
    for (const ArenaItem& item : items) {
      if (item.first <= at.first && at.first <= item.last) live += (item.bytes + 255) / 256 * 256;
    }
    most = std::max(most, live);
  }
  return most;
}

void ExpectDisjoint(const std::vector<ArenaItem>& items, const Arena& arena) {
  ASSERT_EQ(arena.offsets.size(), items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    EXPECT_EQ(arena.offsets[i] % kArenaAlignment, 0);
    EXPECT_GE(arena.offsets[i], 0);
    EXPECT_LE(arena.offsets[i] + items[i].bytes, arena.height);
    for (size_t j = 0; j < i; ++j) {
      if (items[i].first > items[j].last || items[j].first > items[i].last) continue;
      EXPECT_TRUE(arena.offsets[i] + items[i].bytes <= arena.offsets[j] ||
                  arena.offsets[j] + items[j].bytes <= arena.offsets[i])
          << i << " and " << j;
    }
  }
}

// A rank of zb-v with the first and the last stage. Of the first, seven microbatches wait, and an eighth while the
// oldest is worked on; between these the last stage needs two buffers, each as large as four of those. With a place for
// each of the eight the two would always lie above them: 8 + 8.3 of the unit. But in the right order the free place is
// part of one of two gaps, which wander through the arena: 7 + 8.3.
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
  const int64_t bound = Bound(items);
  EXPECT_LT(bound, 7 * kBlock + kSaved + kGradient + (16 << 20));
  const Arena arena = SearchArena(items, bound, bound + bound / 100);
  ExpectDisjoint(items, arena);
  EXPECT_LE(arena.height, bound + bound / 100);
  EXPECT_EQ(arena.lower_bound, bound);
  EXPECT_EQ(SearchArena(items, bound, bound + bound / 100).offsets, arena.offsets);
}

TEST(ArenaSearch, RandomItemsLieApart) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<ArenaItem> items;
    const int n = 1 + static_cast<int>(random() % 40);
    for (int i = 0; i < n; ++i) {
      ArenaItem item{static_cast<int64_t>(random() % 9) * 100 * (random() % 3 == 0 ? 50 : 1),
                     static_cast<int64_t>(random() % 30), 0};
      item.last = item.first + static_cast<int64_t>(random() % 10);
      items.push_back(item);
    }
    const int64_t bound = Bound(items);
    const Arena arena = SearchArena(items, bound, bound + bound / 5);
    SCOPED_TRACE(round);
    ExpectDisjoint(items, arena);
    EXPECT_GE(arena.height, bound);
  }
}

TEST(ArenaSearch, NothingTakesNothing) {
  EXPECT_EQ(SearchArena({}, 0, 0).height, 0);
  const std::vector<ArenaItem> empty = {{0, 0, 3}};
  EXPECT_EQ(SearchArena(empty, 0, 0).height, 0);
}

}  // namespace
}  // namespace weft
