#include "schedules/pipeline/interleaved.h"

#include <algorithm>
#include <cstdint>
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
    list +=
        (slot.kind == SlotKind::kForward ? " f" : " B") + std::to_string(slot.stage) + std::to_string(slot.microbatch);
  }
  return list;
}

TEST(Interleaved, ListsAndTimesOfTheDrawing) {
  const ScheduleParams params = {.ranks = 2, .microbatches = 2, .costs = {.forward = 2, .backward = 4, .weight = 2}};
  const PipelineSchedule schedule = *BuildSchedule(**FindSchedule("interleaved"), params);
  EXPECT_EQ(List(schedule, 0), " f00 f01 f20 f21 B20 B21 B00 B01");
  EXPECT_EQ(List(schedule, 1), " f10 f11 f30 B30 f31 B31 B10 B11");
  const ScheduleTiming timing = *TimeSchedule(schedule, 2, params.costs);
  ASSERT_EQ(timing.unit, 2);
  EXPECT_THAT(timing.start[0], ElementsAre(0, 2, 4, 6, 12, 18, 22, 26));
  EXPECT_THAT(timing.start[1], ElementsAre(2, 4, 6, 8, 12, 14, 18, 22));
  EXPECT_EQ(timing.makespan, 30);
  EXPECT_EQ(timing.ranks[0].peak_activations, 4);
  EXPECT_EQ(timing.ranks[1].peak_activations, 3);
}

// The table that Megatron-LM prints for P=2, N=5, v=2 and groups of 3.
TEST(Interleaved, MegatronsTable) {
  std::vector<int> microbatches, chunks;
  for (const VirtualStep& step : VirtualSteps(5, 2, 3)) {
    microbatches.push_back(step.microbatch);
    chunks.push_back(step.chunk);
  }
  EXPECT_THAT(microbatches, ElementsAre(0, 1, 2, 0, 1, 2, 3, 4, 3, 4));
  EXPECT_THAT(chunks, ElementsAre(0, 0, 0, 1, 1, 1, 0, 0, 1, 1));
}

// The smallest valid group equals PyTorch's N / max(1, floor(N / P)) wherever PyTorch's formula gives an integer.
TEST(Interleaved, DefaultGroupIsThatOfPyTorch) {
  int same = 0;
  for (int p = 1; p <= 12; ++p) {
    for (int n = 1; n <= 60; ++n) {
      const int group = *InterleavedGroup({.ranks = p, .microbatches = n});
      const int rounds = std::max(1, n / p);
      if (n % rounds != 0) continue;
      EXPECT_EQ(group, n / rounds) << "P=" << p << " N=" << n;
      ++same;
    }
  }
  EXPECT_GT(same, 200);
}

TEST(Interleaved, RefusesGroupsWithAShortRest) {
  const ScheduleEntry& entry = **FindSchedule("interleaved");
  auto message = [&](const ScheduleParams& params) {
    return std::string(BuildSchedule(entry, params).status().message());
  };
  EXPECT_EQ(message({.ranks = 4, .microbatches = 5, .group = 4}),
            "group = 4 for 4 ranks and 5 microbatches; allowed: 4 to 5 if N modulo group is 0 or at least 4, "
            "nearest valid: 5");
  EXPECT_THAT(message({.ranks = 4, .microbatches = 10, .group = 1}), HasSubstr("nearest valid: 5"));
  EXPECT_EQ(message({.ranks = 4, .microbatches = 3, .group = 4}),
            "group = 4 for 4 ranks and 3 microbatches; allowed: 3, nearest valid: 3");
  EXPECT_THAT(message({.ranks = 4, .microbatches = 8, .virtual_stages = 1}), HasSubstr("virtual_stages = 1; allowed"));
  EXPECT_EQ(message({.ranks = 4, .microbatches = 8, .virtual_stages = 1025}),
            "virtual_stages = 1025; allowed: 1 to 1024, nearest valid: 1024 (a rank has at most 1024 stages)");
}

}  // namespace
}  // namespace weft
