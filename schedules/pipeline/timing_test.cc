#include "schedules/pipeline/timing.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PipelineSchedule Build(const char* name, int ranks, int microbatches) {
  return *(*FindSchedule(name))->build({.ranks = ranks, .microbatches = microbatches});
}

// Makespans with edge latency c, for P = 4, N = 8, F = 1, B = 2, in quarters of F. The expected values come from an
// independent simulator. GPipe pays latency only in the fill and drain; 1F1B pays it twice per microbatch.
TEST(TimeSchedule, Latency) {
  const std::vector<int64_t> latencies = {0, 1, 2, 4};
  std::vector<int64_t> gpipe, one_f_one_b;
  for (int64_t c : latencies) {
    const SlotCosts costs = {.forward = 4, .backward = 8, .p2p = c};
    gpipe.push_back(TimeSchedule(Build("gpipe", 4, 8), 8, costs)->makespan);
    one_f_one_b.push_back(TimeSchedule(Build("1f1b", 4, 8), 8, costs)->makespan);
  }
  EXPECT_THAT(gpipe, ElementsAre(33 * 4, 34.5 * 4, 36 * 4, 39 * 4));
  EXPECT_THAT(one_f_one_b, ElementsAre(33 * 4, 37 * 4, 41 * 4, 49 * 4));
}

// GPipe's makespan with latency is (N + P - 1)(F + B) + 2(P - 1)c, however large c is.
TEST(TimeSchedule, GPipeWithLatencyHasAClosedForm) {
  for (int p = 1; p <= 6; ++p) {
    for (int n = 1; n <= 6; ++n) {
      for (int64_t c : {0, 1, 5, 100}) {
        const SlotCosts costs = {.forward = 3, .backward = 4, .p2p = c};
        EXPECT_EQ(TimeSchedule(Build("gpipe", p, n), n, costs)->makespan, (n + p - 1) * 7 + 2 * (p - 1) * c);
      }
    }
  }
}

// With two looped stages per rank, a slot is half a rank's work, so all numbers are in halves.
TEST(TimeSchedule, SeveralStagesPerRank) {
  const auto f = SlotKind::kForward, b = SlotKind::kBackward;
  const PipelineSchedule schedule = {.stages = 4,
                                     .lanes = 1,
                                     .placement = {{0, 1, 0, 1}},
                                     .order = {{{f, 0, 0, 0}, {f, 0, 2, 0}, {b, 0, 2, 0}, {b, 0, 0, 0}},
                                               {{f, 0, 1, 0}, {f, 0, 3, 0}, {b, 0, 3, 0}, {b, 0, 1, 0}}}};
  const ScheduleTiming timing = *TimeSchedule(schedule, 1, {.forward = 1, .backward = 2});
  EXPECT_EQ(timing.unit, 2);
  // Four forwards and four backwards one after the other: 4 * 1/2 + 4 * 2/2 = 6.
  EXPECT_EQ(timing.makespan, 12);
  EXPECT_EQ(timing.ideal, 6);
  EXPECT_EQ(timing.ranks[0].peak_activations, 2);
  EXPECT_THAT(timing.start[0], ElementsAre(0, 2, 6, 10));
  EXPECT_THAT(timing.end[1], ElementsAre(2, 4, 6, 10));
  // Rank 1 works from 1 to 10, rank 0 from 0 to 12.
  EXPECT_EQ(timing.span, 12);
}

// Two ranks for one stage: a slot is twice a rank's share.
TEST(TimeSchedule, FewerStagesThanRanks) {
  const PipelineSchedule schedule = {.stages = 1,
                                     .lanes = 1,
                                     .placement = {{1}},
                                     .order = {{}, {{SlotKind::kForward, 0, 0, 0}, {SlotKind::kBackward, 0, 0, 0}}}};
  const ScheduleTiming timing = *TimeSchedule(schedule, 1, {.forward = 1, .backward = 2});
  EXPECT_EQ(timing.unit, 1);
  EXPECT_EQ(timing.makespan, 6);
  EXPECT_EQ(timing.ranks[0].idle, 6);
  EXPECT_EQ(timing.ranks[0].peak_activations, 0);
}

TEST(TimeSchedule, RefusesWhatItCannotTime) {
  PipelineSchedule schedule = Build("gpipe", 2, 2);
  EXPECT_THAT(std::string(TimeSchedule(schedule, 2, {.p2p = -1}).status().message()), HasSubstr("p2p = -1"));
  EXPECT_THAT(std::string(TimeSchedule(schedule, 2, {.forward = INT64_MAX}).status().message()), HasSubstr("forward"));
  // One stage has the work of a million ranks.
  PipelineSchedule wide = {.stages = 1, .lanes = 1, .placement = {{0}}, .order = {{}}};
  for (int m = 0; m < 64; ++m) {
    wide.order[0].push_back({SlotKind::kForward, 0, 0, m});
    wide.order[0].push_back({SlotKind::kBackward, 0, 0, m});
  }
  wide.order.resize(1 << 20);
  EXPECT_EQ(TimeSchedule(wide, 64, {.forward = 1, .backward = 2})->makespan, 64 * 3 << 20);
  EXPECT_THAT(std::string(TimeSchedule(wide, 64, {.forward = int64_t{1} << 36}).status().message()),
              HasSubstr("too large"));
  schedule.order[0].pop_back();
  EXPECT_THAT(std::string(TimeSchedule(schedule, 2, {}).status().message()), HasSubstr("missing"));
}

// If all stages cost the same, costs by stage give the same times as costs of slots.
TEST(TimeSchedule, CostsByStageAgreeWithCostsOfSlots) {
  int compared = 0;
  for (const ScheduleEntry& entry : Schedules()) {
    const absl::StatusOr<PipelineSchedule> schedule = BuildSchedule(entry, {.ranks = 4, .microbatches = 8});
    if (!schedule.ok() || schedule->message_driven || schedule->asynchrony) continue;
    const absl::StatusOr<ScheduleTiming> slots =
        TimeSchedule(*schedule, 8, {.forward = 3, .backward = 7, .weight = 2, .p2p = 1});
    ASSERT_TRUE(slots.ok()) << slots.status();
    // A stage has 4 / stages of a rank's work, in multiples of 1 / unit.
    const int64_t share = slots->unit * 4 / schedule->stages;
    bool has_pairs = false;
    for (const std::vector<Slot>& order : schedule->order) {
      for (const Slot& slot : order) has_pairs |= slot.paired;
    }
    if (has_pairs) continue;
    const StageCosts stage{3 * share, 7 * share, 5 * share, 2 * share};
    const absl::StatusOr<ScheduleTiming> stages =
        TimeSchedule(*schedule, 8, std::vector<StageCosts>(schedule->stages, stage), slots->unit);
    ASSERT_TRUE(stages.ok()) << stages.status();
    EXPECT_EQ(stages->makespan, slots->makespan) << entry.name;
    EXPECT_EQ(stages->start, slots->start) << entry.name;
    ++compared;
  }
  EXPECT_GT(compared, 8);
}

TEST(TimeSchedule, TheSlowestStageSetsThePace) {
  const PipelineSchedule schedule = *BuildSchedule(**FindSchedule("1f1b"), {.ranks = 3, .microbatches = 10});
  const std::vector<StageCosts> costs = {{1, 2, 0, 0}, {4, 8, 0, 0}, {1, 2, 0, 0}};
  // The slow stage works without a gap, between one forward and one backward of the first stage.
  EXPECT_EQ(TimeSchedule(schedule, 10, costs, 0)->makespan, 1 + 10 * 12 + 2);
}

TEST(TimeSchedule, RefusesCostsOfOtherStages) {
  const PipelineSchedule schedule = *BuildSchedule(**FindSchedule("1f1b"), {.ranks = 2, .microbatches = 2});
  EXPECT_FALSE(TimeSchedule(schedule, 2, std::vector<StageCosts>(3), 0).ok());
  EXPECT_FALSE(TimeSchedule(schedule, 2, {{1, -1, 0, 0}, {1, 1, 0, 0}}, 0).ok());
  EXPECT_FALSE(TimeSchedule(*BuildSchedule(**FindSchedule("axonn"), {.ranks = 2, .microbatches = 2}), 2,
                            std::vector<StageCosts>(2), 0)
                   .ok());
}

}  // namespace
}  // namespace weft
