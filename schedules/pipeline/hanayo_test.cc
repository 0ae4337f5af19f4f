#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/list_scheduling.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ScheduleEntry& Hanayo() { return **FindSchedule("hanayo"); }

constexpr SlotCosts kTwice = {.forward = 1, .backward = 2};

ScheduleTiming TimeOf(const ScheduleParams& params) {
  const absl::StatusOr<PipelineSchedule> schedule = BuildSchedule(Hanayo(), params);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(CheckAccumulationOrder(*schedule), absl::OkStatus());
  const absl::StatusOr<ScheduleTiming> timing = TimeSchedule(*schedule, params.microbatches, params.costs);
  EXPECT_TRUE(timing.ok()) << timing.status();
  EXPECT_EQ(timing->unit, 2 * std::max(params.waves, 1));
  return *timing;
}

// The makespan in units of one rank's forward.
double Makespan(int ranks, int microbatches, int waves, int limit = 0) {
  const ScheduleTiming timing =
      TimeOf({.ranks = ranks, .microbatches = microbatches, .costs = kTwice, .waves = waves, .limit = limit});
  return static_cast<double>(timing.makespan) / static_cast<double>(timing.unit);
}

TEST(Hanayo, IsTheDrawing) {
  const PipelineSchedule schedule = *BuildSchedule(Hanayo(), {.ranks = 4, .microbatches = 4, .waves = 2});
  EXPECT_THAT(schedule.placement, ElementsAre(ElementsAre(0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0)));
  const ScheduleTiming timing = *TimeSchedule(schedule, 4, kTwice);
  EXPECT_EQ(timing.makespan, 60);
  const std::string drawing[] = {"abcd...aabbccddaAAbBBcCCdDD...AAAABBBBCCCCDDDDAA..BB..CC..DD",
                                 ".abc..adbacbdcadb.AAcBBdCC..AADDBBAACCBBDDCCAADDBB..CC..DD..",
                                 "..ab.acbdcadbacbdc..AAdBB.AACCBBDDCCAADDBBAACCBBDDCC..DD....",
                                 "...aabbccddaabbccdd...AAAABBBBCCCCDDDDAAAABBBBCCCCDDDD......"};
  for (int rank = 0; rank < 4; ++rank) {
    std::string row(60, '.');
    for (size_t i = 0; i < schedule.order[rank].size(); ++i) {
      const Slot& slot = schedule.order[rank][i];
      for (int64_t t = timing.start[rank][i]; t < timing.end[rank][i]; ++t) {
        row[t] = static_cast<char>((slot.kind == SlotKind::kForward ? 'a' : 'A') + slot.microbatch);
      }
    }
    EXPECT_EQ(row, drawing[rank]);
  }
}

// One wave at N = P is Chimera-wave.
TEST(Hanayo, OneWaveIsChimeraWave) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const PipelineSchedule wave =
        *BuildSchedule(**FindSchedule("chimera-wave"), {.ranks = ranks, .microbatches = ranks});
    const PipelineSchedule hanayo = *BuildSchedule(Hanayo(), {.ranks = ranks, .microbatches = ranks});
    EXPECT_EQ(hanayo.placement, wave.placement);
    EXPECT_EQ(hanayo.order, wave.order);
  }
}

// At N = P the bubble is (2P - 2)/W, so the makespan is 3P plus that.
TEST(Hanayo, TakesTheKnownTimes) {
  EXPECT_EQ(Makespan(4, 4, 1), 18);
  EXPECT_EQ(Makespan(4, 4, 2), 15);
  EXPECT_EQ(Makespan(4, 4, 4), 13.5);
  EXPECT_EQ(Makespan(8, 8, 1), 38);
  EXPECT_EQ(Makespan(8, 8, 2), 31);
  EXPECT_EQ(Makespan(8, 8, 4), 27.5);
  EXPECT_EQ(Makespan(4, 4, 0), 18) << "one wave if not told";
}

// With twice as many microbatches in flight, N = 2P reaches the bound 3N + 3(P - 1)/2W.
TEST(Hanayo, MoreInFlightFillMoreBubbles) {
  EXPECT_EQ(Makespan(4, 8, 1), 33);
  EXPECT_EQ(Makespan(4, 8, 1, 4), 33);
  EXPECT_EQ(Makespan(4, 8, 1, 5), 30);
  EXPECT_EQ(Makespan(4, 8, 1, 6), 28.5);
  EXPECT_EQ(Makespan(4, 8, 1, 7), 28.5);
  EXPECT_EQ(Makespan(4, 8, 1, 8), 28.5);
  // Half as many additional microbatches are enough, also in a long run.
  EXPECT_EQ(Makespan(4, 32, 1), 123);
  EXPECT_EQ(Makespan(4, 32, 1, 5), 105);
  EXPECT_EQ(Makespan(4, 32, 1, 6), 100.5);
  EXPECT_EQ(Makespan(4, 32, 1, 8), 100.5);
  for (int ranks : {2, 4, 8}) {
    for (int waves : {1, 2, 4}) {
      EXPECT_EQ(Makespan(ranks, 2 * ranks, waves, 2 * ranks), 6 * ranks + 3 * (ranks - 1) / (2.0 * waves));
    }
  }
}

TEST(Hanayo, TakesWhatTheClosedFormSays) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int n = 1; n <= 24; ++n) {
      for (int waves : {1, 2, 3}) {
        for (int limit : {0, 2 * ranks, 3 * ranks}) {
          for (const auto& [forward, backward] :
               std::vector<std::pair<int64_t, int64_t>>{{1, 2}, {1, 1}, {1, 3}, {5, 7}, {3, 1}}) {
            const ScheduleParams params = {.ranks = ranks,
                                           .microbatches = n,
                                           .costs = {.forward = forward, .backward = backward},
                                           .waves = waves,
                                           .limit = limit};
            const std::optional<ClosedForm> form = Hanayo().closed_form(params);
            ASSERT_EQ(form.has_value(), limit == 0 ? n % ranks == 0 : n % (2 * ranks) == 0 && backward == 2 * forward);
            if (!form) continue;
            SCOPED_TRACE(testing::Message() << "P=" << ranks << " N=" << n << " W=" << waves << " limit=" << limit
                                            << " F=" << forward << " B=" << backward);
            const ScheduleTiming timing = TimeOf(params);
            ASSERT_EQ((Ratio{timing.makespan, timing.unit}), *form->makespan);
            for (int rank = 0; rank < ranks; ++rank) {
              ASSERT_EQ((Ratio{timing.ranks[rank].peak_activations, timing.unit}), form->peak_activations[rank]);
            }
          }
        }
      }
    }
  }
}

// With any number of microbatches and any limit, the schedule is valid and never has more in flight than the limit.
TEST(Hanayo, KeepsTheLimit) {
  for (int ranks = 1; ranks <= 6; ++ranks) {
    for (int n = 1; n <= 16; ++n) {
      for (int waves : {1, 2}) {
        for (int limit : {0, 1, 2, ranks, ranks + 1, 2 * ranks - 1, 2 * ranks, 100}) {
          for (int64_t p2p : {0, 1}) {
            const ScheduleParams params = {.ranks = ranks,
                                           .microbatches = n,
                                           .costs = {.forward = 1, .backward = 2, .p2p = p2p},
                                           .waves = waves,
                                           .limit = limit};
            SCOPED_TRACE(testing::Message() << "P=" << ranks << " N=" << n << " W=" << waves << " limit=" << limit);
            const PipelineSchedule schedule = *BuildSchedule(Hanayo(), params);
            ASSERT_EQ(CheckSchedule(schedule, n), absl::OkStatus());
            ASSERT_EQ(CheckAccumulationOrder(schedule), absl::OkStatus());
            int in_flight = 0, most = 0;
            for (const Slot& slot : schedule.order[0]) {
              if (slot.stage != 0) continue;
              in_flight += slot.kind == SlotKind::kForward ? 1 : -1;
              most = std::max(most, in_flight);
            }
            ASSERT_LE(most, limit == 0 ? ranks : limit);
            // The schedule is at least as fast as plain list scheduling that prefers backwards.
            const ScheduleTiming timing = *TimeSchedule(schedule, n, params.costs);
            const ListedOrder listed = ScheduleByRule(
                schedule.placement[0], ranks, n, std::min(limit == 0 ? ranks : limit, n),
                {.forward = 1, .backward = 2, .p2p = p2p * 2 * waves}, {.per_microbatch = 1, .forward = n});
            ASSERT_LE(timing.makespan, listed.makespan);
          }
        }
      }
    }
  }
}

// Compares the makespans from both functions of list_scheduling.h with the timing of schedules.
TEST(ListScheduling, AgreesWithTheTiming) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (int n : {1, 2, 5, 9}) {
      for (int64_t p2p : {0, 1, 3}) {
        PipelineSchedule schedule = *BuildSchedule(Hanayo(), {.ranks = ranks, .microbatches = n, .waves = 2});
        // There are four stages per rank, and the timing counts in quarters.
        const ListCosts costs = {.forward = 2, .backward = 3, .p2p = 4 * p2p};
        const SlotCosts whole = {.forward = 2, .backward = 3, .p2p = p2p};
        EXPECT_EQ(MakespanInOrder(schedule.placement[0], schedule.order, n, costs),
                  TimeSchedule(schedule, n, whole)->makespan);
        for (int limit : {1, 3, n}) {
          ListedOrder listed = ScheduleByRule(schedule.placement[0], ranks, n, limit, costs,
                                              {.per_microbatch = 2, .per_forward_stage = 1, .backward = 5});
          schedule.order = listed.order;
          ASSERT_EQ(CheckSchedule(schedule, n), absl::OkStatus());
          EXPECT_EQ(listed.makespan, TimeSchedule(schedule, n, whole)->makespan);
          EXPECT_EQ(listed.makespan, MakespanInOrder(schedule.placement[0], listed.order, n, costs));
        }
      }
    }
  }
}

// Eq. 1 of the paper, with T_F = 1, T_B = 2: numerator and denominator, both multiplied by P - 1.
struct Equation1 {
  double bubble;
  double total;
};
Equation1 Evaluate(double p, double w, double t_c) {
  constexpr double kForward = 1, kBackward = 2;
  return {(p - 1) * (kBackward / w + (1 + 2 * w + 2 / p + (p - 2) / 3) * t_c),
          (p - 1) * (p / (p - 1) * kForward + (1 / (2 * w) + p / (p - 1)) * kBackward + ((p - 2) / 2 + 4 * w) * t_c)};
}

// Compares the paper's Eq. 1 with orders that exist, at N = P.
// - T_C = 0: its bubble is exactly the measured one, (2P-2)/W. Its ratio, (2P-2)/(3PW+P-1), is an upper bound, because
//   its total time is the work and half of the bubble, (P-1)/W too little.
// - T_C > 0, W = 1: the ratio is an upper bound up to T_C = T_F/2. So is its bubble, to within a quarter of T_F.
// - T_C > 0, W > 1: neither is a bound. One microbatch alone crosses (P-1) * 4W edges, so the makespan is at least
//   3P + 4W(P-1) T_C for any order. At P = 4, W = 4, T_C = 1 that is a bubble of 48, where the equation allows 32. The
//   equation's total, which is not its bubble plus the work, is near the measured makespan there (63.75 and 61.5).
TEST(Hanayo, Equation1) {
  constexpr int64_t kScale = 16;  // T_F in units of time
  for (int p : {4, 8}) {
    for (int w : {1, 2, 4}) {
      for (int64_t t_c : {0, 1, 2, 4, 8, 16}) {
        SCOPED_TRACE(testing::Message() << "P=" << p << " W=" << w << " T_C=" << t_c << "/16");
        const ScheduleTiming timing = TimeOf({.ranks = p,
                                              .microbatches = p,
                                              .costs = {.forward = kScale, .backward = 2 * kScale, .p2p = t_c},
                                              .waves = w});
        const double edge = static_cast<double>(t_c) / kScale;
        const double makespan = static_cast<double>(timing.makespan) / static_cast<double>(timing.unit * kScale);
        const double bubble = makespan - 3 * p, ratio = bubble / makespan;
        const Equation1 equation = Evaluate(p, w, edge);
        EXPECT_GE(makespan, 3 * p + 4 * w * (p - 1) * edge);
        if (t_c == 0) {
          EXPECT_DOUBLE_EQ(equation.bubble, bubble);
          EXPECT_DOUBLE_EQ(equation.bubble, (2.0 * p - 2) / w);
          EXPECT_DOUBLE_EQ(equation.total, makespan - (p - 1.0) / w);
          EXPECT_LT(ratio, equation.bubble / equation.total);
        } else if (w == 1 && t_c <= kScale / 2) {
          EXPECT_LT(ratio, equation.bubble / equation.total);
          EXPECT_LT(bubble, equation.bubble + 0.25);
        } else if (w > 1) {
          EXPECT_GT(bubble, equation.bubble);
          EXPECT_GT(ratio, equation.bubble / equation.total);
        }
      }
    }
  }
  // No order can have a bubble as small as the equation's.
  EXPECT_GT(4 * 4 * 3 * 1.0, Evaluate(4, 4, 1).bubble);
  EXPECT_DOUBLE_EQ(Evaluate(4, 4, 1).total, 63.75);
  EXPECT_DOUBLE_EQ(Evaluate(4, 4, 1).bubble, 32);
}

TEST(Hanayo, RefusesAbsurdNumbers) {
  auto message = [](const ScheduleParams& params) {
    return std::string(BuildSchedule(Hanayo(), params).status().message());
  };
  EXPECT_THAT(message({.ranks = 4, .microbatches = 4, .waves = -1}), HasSubstr("waves = -1"));
  EXPECT_THAT(message({.ranks = 4, .microbatches = 4, .waves = 513}),
              HasSubstr("allowed: 1 to 512, nearest valid: 512 (a rank has at most 1024 stages, a wave is 2)"));
  EXPECT_THAT(message({.ranks = 4, .microbatches = 4, .waves = 1 << 30}), HasSubstr("waves = 1073741824"));
  EXPECT_THAT(message({.ranks = 4, .microbatches = 4, .limit = -1}), HasSubstr("limit = -1"));
  EXPECT_THAT(message({.ranks = 0}), HasSubstr("ranks = 0"));
  EXPECT_THAT(message({.ranks = 4, .microbatches = 4, .lanes = 2}), HasSubstr("does not take lanes"));
  // If the sum of the costs does not fit in an integer, the schedule uses the order of the table.
  const int64_t large = int64_t{1} << 50;
  const ScheduleParams params = {.ranks = 2,
                                 .microbatches = 512,
                                 .costs = {.forward = large, .backward = large, .p2p = large},
                                 .waves = 4,
                                 .limit = 3};
  const PipelineSchedule schedule = *BuildSchedule(Hanayo(), params);
  EXPECT_EQ(CheckSchedule(schedule, 512), absl::OkStatus());
  // There is no closed form either: in units of 1/1024, its values do not fit in an integer.
  EXPECT_FALSE(Hanayo().closed_form(
      {.ranks = 1, .microbatches = 512, .costs = {.forward = large, .backward = large}, .waves = 512}));
}

}  // namespace
}  // namespace weft
