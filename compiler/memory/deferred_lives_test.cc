#include "compiler/memory/deferred_lives.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> Ends(const std::vector<DeferredValue>& values, int steps) {
  std::vector<int64_t> ends;
  for (const ArenaItem& item : LivesOfDeferred(values, steps)) ends.push_back(item.last);
  return ends;
}

// The last layer comes first.
TEST(DeferredLives, LayersOfOneSizeTakeTheBytesOfTheLayerBeforeThePrevious) {
  const std::vector<DeferredValue> values = {{3, 0, 1, 64}, {2, 2, 3, 64}, {1, 4, 5, 64}, {0, 6, 7, 64}};
  EXPECT_THAT(Ends(values, 8), ElementsAre(3, 5, 7, 7));
  EXPECT_EQ(PlanArena(LivesOfDeferred(values, 8))->height, 512);
}

TEST(DeferredLives, BehindALargeLayerThereIsTimeForManySmallOnes) {
  const std::vector<DeferredValue> values = {
      {9, 0, 1, 768}, {3, 2, 3, 256}, {2, 4, 5, 256}, {1, 6, 7, 256}, {0, 8, 9, 256}};
  EXPECT_THAT(Ends(values, 10), ElementsAre(7, 9, 9, 9, 9));
  EXPECT_EQ(PlanArena(LivesOfDeferred(values, 10))->height, 1536);
}

// One collective scatters two values at the end of a layer.
TEST(DeferredLives, AtLeastUntilTheLastUse) {
  EXPECT_THAT(Ends({{2, 0, 5, 64}, {2, 1, 5, 64}, {1, 3, 4, 128}, {0, 4, 6, 128}}, 7), ElementsAre(5, 5, 6, 6));
}

TEST(DeferredLives, NothingAndTooMuch) {
  EXPECT_THAT(Ends({}, 3), ElementsAre());
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(Ends({{1, 0, 0, most}, {0, 1, 1, most}}, 2), ElementsAre(1, 1));
}

}  // namespace
}  // namespace weft
