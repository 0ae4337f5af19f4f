#include "compiler/segments/step_order.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

OrderedStep Compute(std::vector<StepAccess> accesses = {}) { return {0, false, std::move(accesses)}; }
OrderedStep Collective(int stream, bool blocking, std::vector<StepAccess> accesses = {}) {
  return {stream, blocking, std::move(accesses)};
}
StepAccess Read(int space) { return {space, 0, 8, false}; }
StepAccess Write(int space) { return {space, 0, 8, true}; }

// Nothing runs beside a blocking collective, not even another collective.
TEST(StepOrder, BlockingCollectivesStandBetweenComputeSteps) {
  const StepOrder order({Compute(), Collective(1, true), Collective(2, true), Compute(), Compute()});
  EXPECT_THAT(order.deps(0), IsEmpty());
  EXPECT_THAT(order.deps(1), ElementsAre(0));
  EXPECT_THAT(order.deps(2), ElementsAre(1));
  EXPECT_THAT(order.deps(3), ElementsAre(2));
  EXPECT_THAT(order.deps(4), IsEmpty());
  EXPECT_EQ(order.WaitedForBy(1), 3);
}

TEST(StepOrder, LaterStepsWaitForABlockingCollective) {
  const StepOrder order({Compute(), Collective(1, false), Collective(2, true), Collective(3, false), Compute()});
  EXPECT_THAT(order.deps(2), ElementsAre(0));
  EXPECT_THAT(order.deps(3), ElementsAre(2));
  EXPECT_THAT(order.deps(4), ElementsAre(2));
}

TEST(StepOrder, AsynchronousOnesAreWaitedForWhereTheirBytesAreUsed) {
  // The gather runs beside step 2; step 3 reads its result.
  const StepOrder order({Compute(), Collective(1, false, {Write(0)}), Compute(), Compute({Read(0)})});
  EXPECT_THAT(order.deps(1), ElementsAre(0));
  EXPECT_THAT(order.deps(2), IsEmpty());
  EXPECT_THAT(order.deps(3), ElementsAre(1));
  EXPECT_EQ(order.WaitedForBy(1), 3);
}

TEST(StepOrder, ReusedBytesAreWaitedFor) {
  // Step 2, a collective, overwrites what step 1 reads. Step 3 overwrites what step 2 reads.
  const StepOrder order({Collective(1, false, {Write(0)}), Compute({Read(0)}),
                         Collective(2, false, {Read(1), Write(0)}), Compute({Write(1)})});
  EXPECT_THAT(order.deps(1), ElementsAre(0));
  EXPECT_THAT(order.deps(2), ElementsAre(1));
  EXPECT_THAT(order.deps(3), ElementsAre(2));
}

TEST(StepOrder, AnEndIsNotAFinishOfACollective) {
  // Two collectives on one stream: the second reads what the first wrote.
  const StepOrder order({Collective(1, false, {Write(0)}), Collective(1, false, {Read(0), Write(1)}),
                         Collective(1, false, {Write(2)}), Compute({Read(1)}), Compute({Read(2)})});
  EXPECT_THAT(order.deps(1), ElementsAre(0));
  EXPECT_THAT(order.deps(2), IsEmpty());
  EXPECT_THAT(order.deps(3), ElementsAre(1));
  EXPECT_THAT(order.deps(4), ElementsAre(2));
  EXPECT_EQ(order.WaitedForBy(0), 3);
}

TEST(StepOrder, CollectivesThatNoStepWaitsForAreNotAwaited) {
  const StepOrder order({Compute({Write(0)}), Collective(1, false, {Read(0)}), Compute()});
  EXPECT_EQ(order.WaitedForBy(1), 3);
}

// A path of waits and streams orders every conflict. If any wait were removed, some conflict would not be ordered.
TEST(StepOrder, RandomStepsAreOrderedWithoutAWaitTooMany) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<OrderedStep> steps(3 + random() % 12);
    for (OrderedStep& step : steps) {
      step.stream = random() % 2 ? 0 : 1 + static_cast<int>(random() % 2);
      step.blocking = random() % 3 == 0;
      for (unsigned k = random() % 3; k > 0; --k) {
        const int64_t begin = random() % 6;
        step.accesses.push_back(
            {static_cast<int>(random() % 2), begin, begin + 1 + static_cast<int64_t>(random() % 3), random() % 2 == 0});
      }
    }
    const StepOrder order(steps);
    const int count = static_cast<int>(steps.size());
    // finished[i][j]: step j is finished when step i starts, if wait number `dep` of step `without` is left out.
    auto closure = [&](int without, size_t dep) {
      std::vector<std::vector<bool>> finished(count, std::vector<bool>(count, false));
      for (int i = 0; i < count; ++i) {
        auto learn = [&](int j, bool itself) {
          for (int k = 0; k < count; ++k) finished[i][k] = finished[i][k] || finished[j][k];
          if (itself) finished[i][j] = true;
        };
        for (int j = i - 1; j >= 0; --j) {
          if (steps[j].stream != steps[i].stream) continue;
          learn(j, steps[i].stream == 0);
          break;
        }
        for (size_t d = 0; d < order.deps(i).size(); ++d) {
          if (i == without && d == dep) continue;
          learn(order.deps(i)[d], true);
        }
      }
      return finished;
    };
    auto holds = [&](const std::vector<std::vector<bool>>& finished) {
      int last_compute = -1;
      for (int i = 0; i < count; ++i) {
        const bool compute = steps[i].stream == 0;
        if (!compute && last_compute >= 0 && !finished[i][last_compute]) return false;
        for (int j = 0; j < i; ++j) {
          bool needed = steps[j].stream != 0 && steps[j].blocking && j > last_compute;
          for (const StepAccess& a : steps[i].accesses) {
            for (const StepAccess& b : steps[j].accesses) {
              needed |= a.space == b.space && (a.writes || b.writes) && a.begin < b.end && b.begin < a.end;
            }
          }
          if (needed && !finished[i][j]) return false;
        }
        if (compute) last_compute = i;
      }
      return true;
    };
    EXPECT_TRUE(holds(closure(-1, 0)));
    for (int i = 0; i < count; ++i) {
      for (size_t d = 0; d < order.deps(i).size(); ++d) EXPECT_FALSE(holds(closure(i, d))) << "step " << i;
    }
  }
}

}  // namespace
}  // namespace weft
