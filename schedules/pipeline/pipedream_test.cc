#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string List(const PipelineSchedule& schedule, int rank) {
  std::string list;
  for (const Slot& slot : schedule.order[rank]) {
    list += (slot.kind == SlotKind::kForward ? "F" : "B") + std::to_string(slot.microbatch);
    if (slot.ahead != 0) list += "'";
  }
  return list;
}

TEST(PipeDream, ListsOfTheDrawing) {
  for (const char* name : {"pipedream", "pipedream-2bw"}) {
    const PipelineSchedule schedule = *BuildSchedule(**FindSchedule(name), {.ranks = 3, .microbatches = 4});
    EXPECT_EQ(List(schedule, 0), "F2B0F3B1F0'B2F1'B3");
    EXPECT_EQ(List(schedule, 1), "F1B0F2B1F3B2F0'B3");
    EXPECT_EQ(List(schedule, 2), "F0B0F1B1F2B2F3B3");
  }
}

// In steady state there is no bubble, whatever the ratio of forward and backward. One repetition alone is 1F1B.
TEST(PipeDream, SteadyPeriod) {
  for (const char* name : {"pipedream", "pipedream-2bw"}) {
    for (int p = 1; p <= 8; ++p) {
      for (int n = p; n <= 20; ++n) {
        for (const SlotCosts& costs : {SlotCosts{1, 2, 1}, {1, 1, 0}, {5, 3, 1}, {10, 1, 1}}) {
          const PipelineSchedule schedule = *BuildSchedule(**FindSchedule(name), {.ranks = p, .microbatches = n});
          const ScheduleTiming timing = *TimeSchedule(schedule, n, costs);
          EXPECT_EQ(timing.period, timing.period_repetitions * n * (costs.forward + costs.backward));
          EXPECT_EQ(timing.makespan, (n + p - 1) * (costs.forward + costs.backward));
          for (int rank = 0; rank < p; ++rank) EXPECT_EQ(timing.ranks[rank].peak_activations, p - rank);
        }
      }
    }
  }
}

// With P - 1 microbatches per repetition rank 0 is exactly one repetition ahead.
TEST(PipeDream, FewestMicrobatches) {
  const PipelineSchedule schedule = *BuildSchedule(**FindSchedule("pipedream"), {.ranks = 4, .microbatches = 3});
  EXPECT_EQ(List(schedule, 0), "F0'B0F1'B1F2'B2");
  const ScheduleTiming timing = *TimeSchedule(schedule, 3, {.forward = 1, .backward = 2});
  EXPECT_EQ(timing.period, 9 * timing.period_repetitions);
  EXPECT_EQ(timing.ranks[0].peak_activations, 4);
  auto message = [](const char* name, int ranks, int microbatches) {
    return std::string(
        BuildSchedule(**FindSchedule(name), {.ranks = ranks, .microbatches = microbatches}).status().message());
  };
  EXPECT_EQ(message("pipedream", 4, 2), "microbatches = 2 with 4 ranks; allowed: at least 3, nearest valid: 3");
  EXPECT_EQ(message("pipedream-2bw", 4, 3), "microbatches = 3 with 4 ranks; allowed: at least 4, nearest valid: 4");
}

// Checks the numbers of versions in the file header of pipedream.cc: counts the versions that microbatches in flight
// use, over some repetitions of each rank's list.
TEST(PipeDream, VersionsAndStaleness) {
  const int p = 4, n = 6;
  const PipelineSchedule schedule = *BuildSchedule(**FindSchedule("pipedream"), {.ranks = p, .microbatches = n});
  ASSERT_TRUE(schedule.asynchrony.has_value());
  EXPECT_EQ(schedule.asynchrony->microbatches_per_update, 1);
  EXPECT_EQ(schedule.asynchrony->uses, Asynchrony::Uses::kNewest);
  EXPECT_THAT(schedule.asynchrony->versions, ElementsAre(4, 3, 2, 1));
  for (int rank = 0; rank < p; ++rank) {
    int newest = 0;
    size_t most = 0;
    // For each microbatch in flight, the version that its forward used.
    std::vector<int> used(4 * n, -1);
    for (int list = -1; list < 3; ++list) {
      for (const Slot& slot : schedule.order[rank]) {
        if (list == -1 && slot.ahead == 0) continue;
        const int m = (list + slot.ahead) * n + slot.microbatch;
        if (slot.kind == SlotKind::kForward) {
          used[m] = newest;
          const std::set<int> versions(used.begin(), used.end());
          most = std::max(most, versions.size() - versions.count(-1));
          continue;
        }
        // The staleness once the pipeline is full.
        if (m >= p) {
          EXPECT_EQ(newest - used[m], p - rank - 1);
        }
        used[m] = -1;
        ++newest;
      }
    }
    EXPECT_EQ(most, schedule.asynchrony->versions[rank]) << rank;
  }
  const PipelineSchedule two = *BuildSchedule(**FindSchedule("pipedream-2bw"), {.ranks = p, .microbatches = n});
  EXPECT_EQ(two.asynchrony->microbatches_per_update, n);
  EXPECT_EQ(two.asynchrony->uses, Asynchrony::Uses::kPrevious);
  EXPECT_THAT(two.asynchrony->versions, ElementsAre(2, 2, 2, 2));
}

}  // namespace
}  // namespace weft
