#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ScheduleEntry& Chimera() { return **FindSchedule("chimera"); }

constexpr SlotCosts kEqual = {.forward = 1, .backward = 1};
constexpr SlotCosts kTwice = {.forward = 1, .backward = 2};

ScheduleTiming TimeOf(const ScheduleParams& params) {
  const absl::StatusOr<PipelineSchedule> schedule = BuildSchedule(Chimera(), params);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(CheckAccumulationOrder(*schedule), absl::OkStatus());
  const absl::StatusOr<ScheduleTiming> timing = TimeSchedule(*schedule, params.microbatches, params.costs);
  EXPECT_TRUE(timing.ok()) << timing.status();
  EXPECT_EQ(timing->unit, 1);
  return *timing;
}

int64_t Makespan(int ranks, int microbatches, const SlotCosts& costs, int lanes = 0,
                 Scaling scaling = Scaling::kConcatenation) {
  return TimeOf({.ranks = ranks, .microbatches = microbatches, .costs = costs, .lanes = lanes, .scaling = scaling})
      .makespan;
}

std::vector<int64_t> Peaks(const ScheduleTiming& timing) {
  std::vector<int64_t> peaks;
  for (const RankTiming& rank : timing.ranks) peaks.push_back(rank.peak_activations);
  return peaks;
}

// All numbers of lanes 2f that `ranks` allows.
std::vector<int> AllLanes(int ranks) {
  std::vector<int> lanes;
  for (int f = 1; f <= ranks / 2; ++f) {
    if (ranks / 2 % f == 0) lanes.push_back(2 * f);
  }
  return lanes;
}

std::string Drawn(const ScheduleParams& params, int rank) {
  const PipelineSchedule schedule = *BuildSchedule(Chimera(), params);
  const ScheduleTiming timing = *TimeSchedule(schedule, params.microbatches, params.costs);
  std::string row(timing.makespan, '.');
  for (size_t i = 0; i < schedule.order[rank].size(); ++i) {
    const Slot& slot = schedule.order[rank][i];
    const bool forward = slot.kind == SlotKind::kForward;
    for (int64_t t = timing.start[rank][i]; t < timing.end[rank][i]; ++t) {
      const int64_t second = forward && t - timing.start[rank][i] >= params.costs.forward ? 1 : 0;
      row[t] = static_cast<char>((forward ? 'a' : 'A') + slot.microbatch + second);
    }
  }
  return row;
}

TEST(Chimera, IsTheDrawing) {
  const ScheduleParams params = {.ranks = 4, .microbatches = 4};
  EXPECT_EQ(Drawn(params, 0), "ab.cCCdDD.AA..BB");
  EXPECT_EQ(Drawn(params, 1), ".acbd.CCAADDBB..");
  EXPECT_EQ(Drawn(params, 2), ".cadb.AACCBBDD..");
  EXPECT_EQ(Drawn(params, 3), "cd.aAAbBB.CC..DD");
  const ScheduleParams doubled = {.ranks = 4, .microbatches = 8, .scaling = Scaling::kForwardDoubling};
  EXPECT_EQ(Drawn(doubled, 0), "abcdefEE.ghFFAAGGBBHHCC..DD");
  EXPECT_EQ(Drawn(doubled, 1), ".abefcdghEEAAFFBBGGCCHHDD..");
  EXPECT_EQ(Drawn(doubled, 2), ".efabghcdAAEEBBFFCCGGDDHH..");
  EXPECT_EQ(Drawn(doubled, 3), "efghabAA.cdBBEECCFFDDGG..HH");
}

// Sec. 3.6: "stages [0, 1, 2, 3, 4, 5, 6, 7] are mapped to workers [4, 5, 6, 7, 0, 1, 2, 3]" for down pipeline 1 of D =
// 8, f = 2. The up pipelines are the reverse.
TEST(Chimera, PlacesLanesAsThePaperDoes) {
  const PipelineSchedule schedule = *BuildSchedule(Chimera(), {.ranks = 8, .microbatches = 8, .lanes = 4});
  EXPECT_THAT(schedule.placement,
              ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7), ElementsAre(7, 6, 5, 4, 3, 2, 1, 0),
                          ElementsAre(4, 5, 6, 7, 0, 1, 2, 3), ElementsAre(3, 2, 1, 0, 7, 6, 5, 4)));
}

// Compares with independent measurements of the defined order: F = B = 1 in slots of the paper's Figures 3, 7 and 8,
// and F = 1, B = 2.
TEST(Chimera, TakesTheKnownTimes) {
  EXPECT_EQ(Makespan(4, 4, kEqual), 10);
  EXPECT_EQ(Makespan(4, 8, kEqual), 18);
  EXPECT_EQ(Makespan(4, 12, kEqual), 26);
  EXPECT_EQ(Makespan(8, 8, kEqual), 22);
  EXPECT_EQ(Makespan(8, 16, kEqual), 38);
  EXPECT_EQ(Makespan(8, 8, kEqual, 4), 18);
  EXPECT_EQ(Makespan(8, 16, kEqual, 4), 34);
  EXPECT_EQ(Makespan(2, 4, kTwice), 12);
  EXPECT_EQ(Makespan(4, 4, kTwice), 16);
  EXPECT_EQ(Makespan(4, 8, kTwice), 30);
  EXPECT_EQ(Makespan(4, 16, kTwice), 58);
  EXPECT_EQ(Makespan(8, 8, kTwice), 36);
  EXPECT_EQ(Makespan(8, 16, kTwice), 66);
  EXPECT_EQ(Makespan(8, 32, kTwice), 126);
  EXPECT_EQ(Makespan(16, 16, kTwice), 76);
  EXPECT_EQ(Makespan(4, 4, kTwice, 4), 12);
  EXPECT_EQ(Makespan(4, 8, kTwice, 4), 24);
  EXPECT_EQ(Makespan(4, 16, kTwice, 4), 48);
  EXPECT_EQ(Makespan(8, 8, kTwice, 4), 28);
  EXPECT_EQ(Makespan(8, 16, kTwice, 4), 54);
  EXPECT_EQ(Makespan(8, 32, kTwice, 4), 106);
  // Costs are scaled by 4. The edge latency is 0, 1/4, 1/2 and 1 forward.
  EXPECT_EQ(Makespan(4, 8, {.forward = 4, .backward = 8}), 4 * 30);
  EXPECT_EQ(Makespan(4, 8, {.forward = 4, .backward = 8, .p2p = 1}), 131);
  EXPECT_EQ(Makespan(4, 8, {.forward = 4, .backward = 8, .p2p = 2}), 142);
  EXPECT_EQ(Makespan(4, 8, {.forward = 4, .backward = 8, .p2p = 4}), 4 * 41);
}

// The closed form and its peaks hold for every multiple of D and every f, with forwards shorter and longer than
// backwards.
TEST(Chimera, TakesWhatTheClosedFormSays) {
  for (int ranks = 2; ranks <= 16; ranks += 2) {
    for (int lanes : AllLanes(ranks)) {
      for (int units = 1; units <= 4; ++units) {
        for (const auto& [forward, backward] :
             std::vector<std::pair<int64_t, int64_t>>{{1, 2}, {1, 1}, {1, 3}, {2, 3}, {3, 1}}) {
          for (Scaling scaling : {Scaling::kConcatenation, Scaling::kForwardDoubling, Scaling::kBackwardHalving}) {
            const ScheduleParams params = {.ranks = ranks,
                                           .microbatches = ranks * units,
                                           .costs = {.forward = forward, .backward = backward},
                                           .lanes = lanes,
                                           .scaling = scaling};
            SCOPED_TRACE(testing::Message() << "D=" << ranks << " lanes=" << lanes << " K=" << units << " F=" << forward
                                            << " B=" << backward << " scaling " << static_cast<int>(scaling));
            const std::optional<ClosedForm> form = Chimera().closed_form(params);
            const bool doubled = scaling != Scaling::kConcatenation && units > 1;
            ASSERT_EQ(form.has_value(), !doubled || units % 2 == 0);
            if (!form) continue;
            const ScheduleTiming timing = TimeOf(params);
            ASSERT_EQ(form->makespan.has_value(), !doubled || backward == 2 * forward);
            if (form->makespan) {
              ASSERT_EQ((Ratio{timing.makespan, 1}), *form->makespan);
            }
            for (int rank = 0; rank < ranks; ++rank) {
              ASSERT_EQ((Ratio{timing.ranks[rank].peak_activations, 1}), form->peak_activations[rank]) << rank;
            }
          }
        }
      }
    }
  }
}

// Sec. 3.5: doubling and halving have D/2 - 1 bubbles in the forwards and D/2 - 1 in the backwards. With N = 2Dk, B =
// 2F and f = 1 the makespan is 3N + 3(D/2 - 1). With more lanes, D/2f replaces D/2. Halving has the same lists, and N
// counts halves.
TEST(Chimera, DoublingHasTheBubblesOfThePaper) {
  for (Scaling scaling : {Scaling::kForwardDoubling, Scaling::kBackwardHalving}) {
    for (int ranks = 2; ranks <= 32; ranks += 2) {
      for (int lanes : AllLanes(ranks)) {
        for (int k = 1; k <= 3; ++k) {
          const int64_t n = int64_t{2} * ranks * k;
          ASSERT_EQ(Makespan(ranks, static_cast<int>(n), kTwice, lanes, scaling), 3 * n + 3 * (ranks / lanes - 1))
              << "D=" << ranks << " lanes=" << lanes << " k=" << k;
        }
      }
    }
  }
}

// No order is faster. A rank gets its first input only after the forwards of all stages before its lowest stage, and
// after its last backward the backwards of these stages follow. (Every microbatch needs every rank, because a lane
// places a stage on every rank. So the rank whose lowest stage is highest waits longest.)
TEST(Chimera, DoublingIsOptimal) {
  for (int ranks = 2; ranks <= 32; ranks += 2) {
    for (int lanes : AllLanes(ranks)) {
      const ScheduleParams params = {
          .ranks = ranks, .microbatches = 2 * ranks, .lanes = lanes, .scaling = Scaling::kForwardDoubling};
      const PipelineSchedule schedule = *BuildSchedule(Chimera(), params);
      int64_t bound = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        int lowest = ranks;
        for (const std::vector<int>& lane : schedule.placement) {
          lowest = std::min(lowest, static_cast<int>(std::find(lane.begin(), lane.end(), rank) - lane.begin()));
        }
        bound = std::max<int64_t>(bound, 3 * (params.microbatches + lowest));
      }
      EXPECT_EQ(TimeOf(params).makespan, bound) << "D=" << ranks << " lanes=" << lanes;
    }
  }
}

// Table 2 of the paper: bubble ratios and activation intervals. The rows of GPipe and DAPPLE (1F1B) hold for any costs.
// The row of Chimera is for forwards that take as long as backwards: F = B with concatenation, B = 2F with doubling.
TEST(Chimera, Table2) {
  for (int d : {2, 4, 8, 16}) {
    for (int k : {1, 2, 4}) {
      const int64_t n = int64_t{d} * k;
      auto bubble = [&](const char* name, const SlotCosts& costs, Scaling scaling = Scaling::kConcatenation) {
        const PipelineSchedule schedule =
            *BuildSchedule(**FindSchedule(name),
                           {.ranks = d, .microbatches = static_cast<int>(n), .costs = costs, .scaling = scaling});
        const ScheduleTiming timing = *TimeSchedule(schedule, static_cast<int>(n), costs);
        return Ratio{timing.makespan - timing.ideal, timing.makespan};
      };
      for (const SlotCosts& costs : {kEqual, kTwice}) {
        EXPECT_EQ(bubble("gpipe", costs), (Ratio{d - 1, n + d - 1}));
        EXPECT_EQ(bubble("1f1b", costs), (Ratio{d - 1, n + d - 1}));
      }
      EXPECT_EQ(bubble("chimera", kEqual), (Ratio{d - 2, 2 * n + d - 2})) << d << " " << n;
      if (k > 1) {
        EXPECT_EQ(bubble("chimera", kTwice, Scaling::kForwardDoubling), (Ratio{d - 2, 2 * n + d - 2}));
      }
      // The ratio (D - 2) / (3N/2 + D - 2) of sec. 2 holds for one unit. With concatenation each further unit adds D -
      // 2 to the bubble.
      EXPECT_EQ(bubble("chimera", kTwice), (Ratio{(k + 1) * (d - 2), 3 * n + (k + 1) * (d - 2)}));
      if (k == 1) {
        EXPECT_EQ(bubble("chimera", kTwice), (Ratio{2 * (d - 2), 2 * (3 * n / 2 + d - 2)}));
      }
    }
    auto interval = [&](const char* name) {
      const PipelineSchedule schedule = *BuildSchedule(**FindSchedule(name), {.ranks = d, .microbatches = 2 * d});
      const std::vector<int64_t> peaks = Peaks(*TimeSchedule(schedule, 2 * d, kTwice));
      const auto [low, high] = std::minmax_element(peaks.begin(), peaks.end());
      return std::pair<int64_t, int64_t>(*low, *high);
    };
    EXPECT_EQ(interval("gpipe"), std::pair(int64_t{2} * d, int64_t{2} * d));
    EXPECT_EQ(interval("1f1b"), std::pair(int64_t{1}, int64_t{d}));
    EXPECT_EQ(interval("chimera"), std::pair(int64_t{d} / 2 + 1, int64_t{d}));
  }
}

// The rows of Table 2 for the other schedules, with B = 2F: GEMS, PipeDream and PipeDream-2BW.
TEST(Chimera, Table2OfTheOthers) {
  for (int d : {2, 4, 8, 16}) {
    const int n = 64 * d;
    auto build = [&](const char* name) {
      return *BuildSchedule(**FindSchedule(name), {.ranks = d, .microbatches = n});
    };
    const PipelineSchedule gems = build("gems");
    const ScheduleTiming one_by_one = *TimeSchedule(gems, n, kTwice);
    // The paper's "(D-1)/(D+1/2)" is approximate: more microbatches come closer to it.
    const double bubble = 1 - static_cast<double>(one_by_one.ideal) / static_cast<double>(one_by_one.makespan);
    EXPECT_NEAR(bubble, (d - 1) / (d + 0.5), 1.0 / n);
    EXPECT_EQ(Peaks(one_by_one), std::vector<int64_t>(d, 1));
    EXPECT_EQ(gems.lanes, 2);
    for (const char* name : {"pipedream", "pipedream-2bw"}) {
      const PipelineSchedule schedule = build(name);
      const ScheduleTiming timing = *TimeSchedule(schedule, n, kTwice);
      EXPECT_EQ(timing.period, timing.ideal * timing.period_repetitions) << name;
      const std::vector<int64_t> peaks = Peaks(timing);
      EXPECT_EQ(*std::min_element(peaks.begin(), peaks.end()), 1);
      EXPECT_EQ(*std::max_element(peaks.begin(), peaks.end()), d);
      ASSERT_TRUE(schedule.asynchrony.has_value());
      const std::vector<int>& versions = schedule.asynchrony->versions;
      const bool two = std::string(name) == "pipedream-2bw";
      EXPECT_EQ(*std::min_element(versions.begin(), versions.end()), two ? 2 : 1);
      EXPECT_EQ(*std::max_element(versions.begin(), versions.end()), two ? 2 : d);
    }
  }
}

// Table 3 of the paper: with 2f pipelines, a bubble ratio of (D-2f)/(2fN+D-2f) and activations in [D-D/2f+1, D].
TEST(Chimera, Table3) {
  for (int d : {4, 8, 16}) {
    for (int lanes : AllLanes(d)) {
      for (int k : {1, 2, 4}) {
        const int64_t n = int64_t{d} * k;
        SCOPED_TRACE(testing::Message() << "D=" << d << " lanes=" << lanes << " N=" << n);
        ScheduleParams params = {.ranks = d, .microbatches = static_cast<int>(n), .costs = kEqual, .lanes = lanes};
        ScheduleTiming timing = TimeOf(params);
        const Ratio table = {d - lanes, lanes * n + d - lanes};
        EXPECT_EQ((Ratio{timing.makespan - timing.ideal, timing.makespan}), table);
        params.costs = kTwice;
        timing = TimeOf(params);
        const std::vector<int64_t> peaks = Peaks(timing);
        EXPECT_EQ(*std::min_element(peaks.begin(), peaks.end()), d - d / lanes + 1);
        EXPECT_EQ(*std::max_element(peaks.begin(), peaks.end()), d);
        if (k == 1) continue;
        params.scaling = Scaling::kForwardDoubling;
        timing = TimeOf(params);
        EXPECT_EQ((Ratio{timing.makespan - timing.ideal, timing.makespan}), table);
      }
    }
  }
}

TEST(Chimera, PeaksPerRank) {
  EXPECT_THAT(Peaks(TimeOf({.ranks = 4, .microbatches = 4})), ElementsAre(3, 4, 4, 3));
  EXPECT_THAT(Peaks(TimeOf({.ranks = 8, .microbatches = 8})), ElementsAre(5, 6, 7, 8, 8, 7, 6, 5));
  EXPECT_THAT(Peaks(TimeOf({.ranks = 8, .microbatches = 24})), ElementsAre(5, 6, 7, 8, 8, 7, 6, 5));
  EXPECT_THAT(Peaks(TimeOf({.ranks = 8, .microbatches = 8, .lanes = 4})), ElementsAre(7, 8, 8, 7, 7, 8, 8, 7));
}

// With any number of microbatches and any scaling, the schedule is valid, divides the microbatches among the lanes as
// evenly as possible, and has wide slots only where the scaling defines them.
TEST(Chimera, TakesAnyNumberOfMicrobatches) {
  for (int ranks : {2, 4, 6, 8, 12}) {
    for (int lanes : AllLanes(ranks)) {
      for (int n = 1; n <= 5 * ranks; ++n) {
        for (Scaling scaling : {Scaling::kConcatenation, Scaling::kForwardDoubling, Scaling::kBackwardHalving}) {
          SCOPED_TRACE(testing::Message() << "D=" << ranks << " lanes=" << lanes << " N=" << n << " scaling "
                                          << static_cast<int>(scaling));
          const ScheduleParams params = {.ranks = ranks, .microbatches = n, .lanes = lanes, .scaling = scaling};
          const PipelineSchedule schedule = *BuildSchedule(Chimera(), params);
          ASSERT_EQ(CheckSchedule(schedule, n), absl::OkStatus());
          ASSERT_EQ(CheckAccumulationOrder(schedule), absl::OkStatus());
          std::vector<int> of_lane(lanes, 0);
          bool wide = false;
          for (const Slot& slot : schedule.order[0]) {
            if (slot.kind == SlotKind::kForward) of_lane[slot.lane] += slot.width;
            wide |= slot.width != 1;
          }
          const auto [low, high] = std::minmax_element(of_lane.begin(), of_lane.end());
          ASSERT_LE(*high - *low, 1);
          if (scaling == Scaling::kConcatenation || n <= ranks) {
            ASSERT_FALSE(wide);
          } else if (n >= 2 * ranks) {
            ASSERT_TRUE(wide);
          }
        }
      }
    }
  }
  // With N = 1, one microbatch runs through one lane. With N = 2, each lane has one microbatch.
  EXPECT_EQ(Makespan(4, 1, kTwice), 12);
  EXPECT_EQ(Makespan(4, 2, kTwice), 12);
}

TEST(Chimera, RefusesWhatHasNoTwoDirections) {
  auto message = [](int ranks, int lanes) {
    return std::string(
        BuildSchedule(Chimera(), {.ranks = ranks, .microbatches = 4, .lanes = lanes}).status().message());
  };
  EXPECT_EQ(message(5, 0), "ranks = 5; a schedule with two directions needs an even number, nearest valid: 4 and 6");
  EXPECT_EQ(message(1, 0), "ranks = 1; a schedule with two directions needs an even number, nearest valid: 2");
  EXPECT_EQ(message(8, 6),
            "lanes = 6 with ranks = 8; allowed: 2f where f divides ranks / 2 = 4, at most 8, nearest valid: 4 and 8");
  EXPECT_THAT(message(8, 1), HasSubstr("nearest valid: 2"));
  EXPECT_THAT(message(8, 3), HasSubstr("nearest valid: 2 and 4"));
  EXPECT_THAT(message(8, 100), HasSubstr("nearest valid: 8"));
  EXPECT_THAT(message(8, -2), HasSubstr("lanes = -2"));
  // A placement of every stage in every lane would exceed the maximum size of a schedule's lists.
  EXPECT_THAT(message(40000, 40000), HasSubstr("at most 1677, nearest valid: 1600"));
  EXPECT_THAT(std::string(BuildSchedule(Chimera(), {.ranks = 4, .microbatches = 4, .waves = 2}).status().message()),
              HasSubstr("does not take waves"));
}

}  // namespace
}  // namespace weft
