#include "compiler/overlap/knapsack.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Knapsack, TakesWhatIsWorthMost) {
  // A greedy choice would take only the first item.
  EXPECT_THAT(ChooseItems({{6, 9}, {5, 7}, {5, 7}}, 10), ElementsAre(1, 2));
  EXPECT_THAT(ChooseItems({{6, 9}, {5, 7}, {5, 7}}, 16), ElementsAre(0, 1, 2));
  EXPECT_THAT(ChooseItems({{1, 2}, {100, 100}}, 100), ElementsAre(1));
}

TEST(Knapsack, NothingFitsOrIsWorthIt) {
  EXPECT_THAT(ChooseItems({{6, 9}}, 5), IsEmpty());
  EXPECT_THAT(ChooseItems({{6, 0}, {0, 3}}, 0), ElementsAre(1));
  EXPECT_THAT(ChooseItems({}, 10), IsEmpty());
}

TEST(Knapsack, LargeNumbers) {
  const int64_t large = int64_t{1} << 62;
  EXPECT_THAT(ChooseItems({{large, large}, {large, large}, {1, 1}}, INT64_MAX), ElementsAre(0, 2));
}

// The layers of a large model, with four weights each.
TEST(Knapsack, ManyAlike) {
  std::vector<KnapsackItem> items;
  for (int layer = 0; layer < 400; ++layer) {
    for (int64_t weight : {3, 1, 4, 4}) items.push_back({weight << 20, weight * 1000 + 7});
  }
  const std::vector<int> chosen = ChooseItems(items, int64_t{1001} << 20);
  int64_t bytes = 0;
  for (int i : chosen) bytes += items[i].bytes;
  EXPECT_EQ(bytes, int64_t{1001} << 20);
}

TEST(Knapsack, IsExact) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<KnapsackItem> items(1 + random() % 10);
    for (KnapsackItem& item : items) item = {static_cast<int64_t>(random() % 12), static_cast<int64_t>(random() % 12)};
    const int64_t room = random() % 40;
    int64_t best = 0;
    for (uint32_t set = 0; set < (1u << items.size()); ++set) {
      int64_t bytes = 0, value = 0;
      for (size_t i = 0; i < items.size(); ++i) {
        if (!(set >> i & 1)) continue;
        bytes += items[i].bytes;
        value += items[i].value;
      }
      if (bytes <= room) best = std::max(best, value);
    }
    int64_t bytes = 0, value = 0;
    for (int i : ChooseItems(items, room)) {
      bytes += items[i].bytes;
      value += items[i].value;
    }
    EXPECT_LE(bytes, room);
    EXPECT_EQ(value, best);
  }
}

}  // namespace
}  // namespace weft
