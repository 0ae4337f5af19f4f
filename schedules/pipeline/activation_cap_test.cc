// Checks that the cap agrees with the measured peak for every schedule, and that its errors say where.
#include "schedules/pipeline/activation_cap.h"

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

std::string Message(const char* name, const ScheduleParams& params, const Ratio& cap) {
  return std::string(
      CheckActivations(*BuildSchedule(**FindSchedule(name), params), params.microbatches, cap).message());
}

TEST(CheckActivations, AgreesWithTheMeasuredPeakOfEverySchedule) {
  int checked = 0;
  for (const ScheduleEntry& entry : Schedules()) {
    for (int ranks : {1, 2, 4, 6}) {
      for (int microbatches : {1, 4, 8, 12}) {
        SCOPED_TRACE(testing::Message() << std::string(entry.name) << " " << ranks << " " << microbatches);
        auto schedule = BuildSchedule(entry, {.ranks = ranks, .microbatches = microbatches});
        if (!schedule.ok()) continue;
        auto timing = TimeSchedule(*schedule, microbatches, {});
        ASSERT_TRUE(timing.ok()) << timing.status();
        int64_t peak = 0;
        for (const RankTiming& rank : timing->ranks) peak = std::max(peak, rank.peak_activations);
        // The check judges a message-driven schedule by its limit, which the first rank reaches.
        EXPECT_TRUE(CheckActivations(*schedule, microbatches, {peak, timing->unit}).ok());
        EXPECT_FALSE(CheckActivations(*schedule, microbatches, {peak * 1000 - 1, timing->unit * 1000}).ok());
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 100);
}

TEST(CheckActivations, NamesTheRankAndTheFirstSlot) {
  EXPECT_EQ(Message("gpipe", {.ranks = 4, .microbatches = 8}, {5, 2}),
            "activation cap = 2.5 microbatches: rank 0, slot F s0 m2: it then holds 3 microbatches");
  EXPECT_EQ(Message("1f1b", {.ranks = 4, .microbatches = 8}, {4, 1}), "");
  // A rank has two stages, so a microbatch in one stage counts half.
  EXPECT_EQ(Message("interleaved", {.ranks = 2, .microbatches = 4, .virtual_stages = 2}, {1, 1}),
            "activation cap = 1 microbatches: rank 0, slot F s2 m0: it then holds 1.5 microbatches");
}

TEST(CheckActivations, ADoubledForwardHoldsTwoUntilItsLastBackward) {
  const ScheduleParams params = {.ranks = 2, .microbatches = 4, .scaling = Scaling::kForwardDoubling};
  EXPECT_THAT(Message("chimera", params, {1, 1}), testing::HasSubstr("m0-1: it then holds 2 microbatches"));
}

TEST(CheckActivations, MessageDrivenRanksCountTheirLimit) {
  EXPECT_EQ(Message("axonn", {.ranks = 4, .microbatches = 8, .limit = 3}, {3, 1}), "");
  EXPECT_EQ(
      Message("axonn", {.ranks = 4, .microbatches = 8, .limit = 3}, {2999, 1000}),
      "activation cap = 2.999 microbatches: rank 0, message-driven with at most 3 microbatches in flight, may hold "
      "3 microbatches");
  EXPECT_EQ(Message("axonn", {.ranks = 4, .microbatches = 2, .limit = 3}, {2, 1}), "");
}

TEST(CheckActivations, RefusesInvalidSchedules) {
  EXPECT_THAT(std::string(CheckActivations({}, 1, {1, 1}).message()), testing::Not(testing::IsEmpty()));
  PipelineSchedule schedule = *BuildSchedule(**FindSchedule("gpipe"), {.ranks = 2, .microbatches = 2});
  schedule.order[0].pop_back();
  EXPECT_THAT(std::string(CheckActivations(schedule, 2, {9, 1}).message()), testing::HasSubstr("is missing"));
}

}  // namespace
}  // namespace weft
