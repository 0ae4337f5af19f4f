// What must hold for every schedule of the registry.
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

// Schedules of which the literature gives no formula. Add to this with a reason.
const std::set<std::string> kWithoutClosedForm = {};

constexpr int kMaximumRanks = 8;
constexpr int kMaximumMicrobatches = 16;
// Forward : backward; 1:2 is the usual one, 1:3 with recompute, the others catch formulas that assume it.
const std::vector<std::pair<int64_t, int64_t>> kRatios = {{1, 1}, {1, 2}, {1, 3}, {2, 1}, {2, 3}, {5, 7}, {10, 1}};

template <typename Body>
void ForAll(const Body& body) {
  for (const ScheduleEntry& entry : Schedules()) {
    for (int ranks = 1; ranks <= kMaximumRanks; ++ranks) {
      for (int microbatches = 1; microbatches <= kMaximumMicrobatches; ++microbatches) {
        for (const auto& [forward, backward] : kRatios) {
          SCOPED_TRACE(testing::Message() << entry.name << " P=" << ranks << " N=" << microbatches << " F=" << forward
                                          << " B=" << backward);
          const ScheduleParams params = {
              .ranks = ranks, .microbatches = microbatches, .costs = {.forward = forward, .backward = backward}};
          const absl::StatusOr<PipelineSchedule> schedule = entry.build(params);
          ASSERT_TRUE(schedule.ok()) << schedule.status();
          body(entry, params, *schedule);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(Schedules, SortedByNameWithSource) {
  ASSERT_FALSE(Schedules().empty());
  for (size_t i = 0; i < Schedules().size(); ++i) {
    EXPECT_FALSE(Schedules()[i].source.empty()) << Schedules()[i].name;
    if (i > 0) {
      EXPECT_LT(Schedules()[i - 1].name, Schedules()[i].name);
    }
    EXPECT_EQ(*FindSchedule(Schedules()[i].name), &Schedules()[i]);
  }
}

TEST(Schedules, UnknownNameListsKnownAndNearest) {
  const absl::Status status = FindSchedule("gpip").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("unknown schedule 'gpip'; nearest: 'gpipe'; known: 1f1b, gpipe"));
}

TEST(Schedules, PassTheChecker) {
  ForAll([](const ScheduleEntry&, const ScheduleParams& params, const PipelineSchedule& schedule) {
    EXPECT_EQ(schedule.order.size(), params.ranks);
    EXPECT_EQ(CheckSchedule(schedule, params.microbatches), absl::OkStatus());
    EXPECT_EQ(CheckAccumulationOrder(schedule), absl::OkStatus());
  });
}

TEST(Schedules, TakeWhatTheClosedFormsSay) {
  ForAll([](const ScheduleEntry& entry, const ScheduleParams& params, const PipelineSchedule& schedule) {
    const absl::StatusOr<ScheduleTiming> timing = TimeSchedule(
        schedule, params.microbatches, {.forward = params.costs.forward, .backward = params.costs.backward});
    ASSERT_TRUE(timing.ok()) << timing.status();
    const std::optional<ClosedForm> form = entry.closed_form ? entry.closed_form(params) : std::nullopt;
    ASSERT_EQ(form.has_value(), kWithoutClosedForm.count(std::string(entry.name)) == 0);
    if (!form) return;
    EXPECT_EQ((Ratio{timing->makespan, timing->unit}), form->makespan);
    int64_t busy = 0, idle = 0;
    ASSERT_EQ(form->peak_activations.size(), params.ranks);
    for (int rank = 0; rank < params.ranks; ++rank) {
      busy += timing->ranks[rank].busy;
      idle += timing->ranks[rank].idle;
      EXPECT_EQ((Ratio{timing->ranks[rank].peak_activations, timing->unit}), form->peak_activations[rank])
          << "rank " << rank;
    }
  });
}

// Laws that need no formula: nobody is faster than its own work or than one microbatch through all stages.
TEST(Schedules, TimesAreWithinBounds) {
  ForAll([](const ScheduleEntry&, const ScheduleParams& params, const PipelineSchedule& schedule) {
    const ScheduleTiming timing = *TimeSchedule(
        schedule, params.microbatches, {.forward = params.costs.forward, .backward = params.costs.backward, .p2p = 1});
    const int64_t pair = params.costs.forward + params.costs.backward;
    EXPECT_EQ(timing.ideal, params.microbatches * pair * timing.unit);
    EXPECT_GE(timing.makespan, timing.ideal);
    EXPECT_GE(timing.makespan, timing.span);
    EXPECT_GE(timing.span, timing.ideal);
    EXPECT_GE(timing.makespan, params.ranks * pair * timing.unit);
    for (const RankTiming& rank : timing.ranks) {
      EXPECT_EQ(rank.busy + rank.idle, timing.makespan);
      EXPECT_LE(rank.peak_activations, params.microbatches * timing.unit);
    }
  });
}

TEST(Schedules, RefuseImpossibleParams) {
  for (const ScheduleEntry& entry : Schedules()) {
    auto message = [&](ScheduleParams params) { return std::string(entry.build(params).status().message()); };
    EXPECT_THAT(message({.ranks = 0}), HasSubstr("ranks = 0; allowed: 1 to 8388608, nearest valid: 1"));
    EXPECT_THAT(message({.ranks = -5}), HasSubstr("ranks = -5"));
    EXPECT_THAT(message({.ranks = 4, .microbatches = 0}), HasSubstr("microbatches = 0; allowed: 1 to 2097152"));
    EXPECT_THAT(message({.ranks = 4, .microbatches = 1 << 30}), HasSubstr("nearest valid: 2097152"));
    EXPECT_THAT(message({.ranks = INT32_MAX, .microbatches = INT32_MAX}), HasSubstr("nearest valid: 8388608"));
    EXPECT_THAT(message({.costs = {.forward = 0}}), HasSubstr("forward = 0"));
    EXPECT_THAT(message({.costs = {.backward = -1}}), HasSubstr("backward = -1"));
    EXPECT_THAT(message({.costs = {.backward = INT64_MAX}}), HasSubstr("nearest valid: 1125899906842624"));
    EXPECT_THAT(message({.ranks = 4096, .microbatches = 512, .costs = {.forward = int64_t{1} << 42}}),
                HasSubstr("forward + backward = 4398046511106 for 4096 ranks and 512 microbatches; allowed: 2 to"));
  }
}

}  // namespace
}  // namespace weft
