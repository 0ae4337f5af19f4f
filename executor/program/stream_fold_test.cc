#include "executor/program/stream_fold.h"

#include <set>
#include <vector>

#include "executor/testing/deferred_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::ElementsAre;

// Takes one program stream of each use, in order, and returns the numbers of their device streams.
std::vector<int> OneOfEach(int budget) {
  DeferredDevice device(1);
  StreamFold fold(&device, budget);
  std::vector<int> numbers;
  for (int use = 0; use < kStreamUses; ++use) numbers.push_back(fold.Take(static_cast<StreamUse>(use))->number);
  return numbers;
}

TEST(StreamFoldTest, UsesShareWhatThereIs) {
  // Order: compute, receives, sends, collectives, copies to the host, copies from it.
  EXPECT_THAT(OneOfEach(0), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(OneOfEach(1), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(OneOfEach(2), ElementsAre(0, 1, 1, 1, 1, 1));
  EXPECT_THAT(OneOfEach(3), ElementsAre(0, 1, 2, 2, 2, 1));
  EXPECT_THAT(OneOfEach(4), ElementsAre(0, 1, 2, 3, 2, 1));
  EXPECT_THAT(OneOfEach(5), ElementsAre(0, 1, 2, 3, 4, 4));
  EXPECT_THAT(OneOfEach(6), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(StreamFoldTest, NeverMoreThanTheBudgetAndAlwaysComputeApart) {
  for (int budget = 1; budget <= 40; ++budget) {
    DeferredDevice device(1);
    StreamFold fold(&device, budget);
    const int compute = fold.Take(StreamUse::kCompute)->number;
    std::set<int> used = {compute};
    int apart = 0;
    for (int i = 0; i < 100; ++i) {
      const StreamFold::Stream stream = *fold.Take(static_cast<StreamUse>(1 + i % (kStreamUses - 1)));
      apart += !stream.shared;
      EXPECT_TRUE(budget == 1 || stream.number != compute) << stream.number;
      used.insert(stream.number);
    }
    EXPECT_LE(static_cast<int>(used.size()), budget);
    EXPECT_GE(static_cast<int>(used.size()), budget > kStreamUses ? budget - 1 : std::min(budget, kStreamUses));
    EXPECT_EQ(apart, std::max(0, budget - kStreamUses - 1));
  }
}

TEST(StreamFoldTest, RanksShareTheQueues) {
  const DeferredDevice any(1), some(1, 32);
  EXPECT_EQ(StreamFold::Budget(any, 8, 0), 0);
  EXPECT_EQ(StreamFold::Budget(any, 1, 3), 0);
  // The budget of a rank that is alone leaves out the queues of the transport and the reserved queues.
  EXPECT_EQ(StreamFold::Budget(some, 1, 0), 30);
  EXPECT_EQ(StreamFold::Budget(some, 1, 3), 27);
  EXPECT_EQ(StreamFold::Budget(some, 1, 40), 1);
  EXPECT_EQ(StreamFold::Budget(some, 8, 0), 4);
  EXPECT_EQ(StreamFold::Budget(some, 64, 0), 1);
}

}  // namespace
}  // namespace weft::exec
