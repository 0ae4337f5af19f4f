#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

const ScheduleEntry& ChimeraWave() { return **FindSchedule("chimera-wave"); }

constexpr Scaling kScalings[] = {Scaling::kConcatenation, Scaling::kForwardDoubling, Scaling::kBackwardHalving};

TEST(ChimeraWave, IsTheDrawing) {
  const PipelineSchedule schedule = *BuildSchedule(ChimeraWave(), {.ranks = 4, .microbatches = 4});
  const ScheduleTiming timing = *TimeSchedule(schedule, 4, {.forward = 1, .backward = 2});
  EXPECT_EQ(timing.unit, 2);
  EXPECT_EQ(timing.makespan, 36);
  const std::string drawing[] = {"abcd...aAAbBBcCCdDD...AA..BB..CC..DD",  //
                                 ".abc..adb.AAcBBdCC..AADDBB..CC..DD..",  //
                                 "..ab.acbdc..AAdBB.AACCBBDDCC..DD....",  //
                                 "...aabbccdd...AAAABBBBCCCCDDDD......"};
  for (int rank = 0; rank < 4; ++rank) {
    std::string row(36, '.');
    for (size_t i = 0; i < schedule.order[rank].size(); ++i) {
      const Slot& slot = schedule.order[rank][i];
      for (int64_t t = timing.start[rank][i]; t < timing.end[rank][i]; ++t) {
        row[t] = static_cast<char>((slot.kind == SlotKind::kForward ? 'a' : 'A') + slot.microbatch);
      }
    }
    EXPECT_EQ(row, drawing[rank]);
  }
}

// Sec. 3.2 and Figure 5 of the Hanayo paper: swapping what the two directions do on mirrored ranks gives two pipelines
// of half the ranks. So at any time rank r of the fold does what rank r of a Chimera of twice the depth does: a slot of
// the same kind and, before the turn, of the same stage.
TEST(ChimeraWave, IsChimeraFolded) {
  for (int ranks : {1, 2, 3, 4, 7}) {
    for (int n : {1, 2, ranks, 2 * ranks, 3 * ranks, 4 * ranks}) {
      for (Scaling scaling : kScalings) {
        for (const auto& [forward, backward] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {1, 2}, {3, 1}}) {
          SCOPED_TRACE(testing::Message() << "P=" << ranks << " N=" << n << " scaling " << static_cast<int>(scaling));
          const SlotCosts costs = {.forward = forward, .backward = backward};
          const PipelineSchedule folded =
              *BuildSchedule(ChimeraWave(), {.ranks = ranks, .microbatches = n, .scaling = scaling});
          const PipelineSchedule whole = *BuildSchedule(
              **FindSchedule("chimera"), {.ranks = 2 * ranks, .microbatches = 2 * n, .scaling = scaling});
          const ScheduleTiming one = *TimeSchedule(folded, n, costs), two = *TimeSchedule(whole, 2 * n, costs);
          // Both makespans are in units of one slot.
          ASSERT_EQ(one.makespan, two.makespan);
          for (int rank = 0; rank < ranks; ++rank) {
            ASSERT_EQ(one.start[rank], two.start[rank]);
            ASSERT_EQ(one.ranks[rank].peak_activations, two.ranks[rank].peak_activations);
            for (size_t i = 0; i < folded.order[rank].size(); ++i) {
              const Slot &a = folded.order[rank][i], &b = whole.order[rank][i];
              ASSERT_EQ(a.kind, b.kind);
              ASSERT_EQ(a.width, b.width);
              // On this half, the down lane's stages are the wave's way down, and the up lane's stages are its way back
              // up.
              ASSERT_EQ(a.stage, b.stage);
              ASSERT_EQ(a.stage < ranks, b.lane == 0);
            }
          }
        }
      }
    }
  }
}

TEST(ChimeraWave, TakesWhatTheClosedFormSays) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int n = 1; n <= 24; ++n) {
      for (Scaling scaling : kScalings) {
        for (const auto& [forward, backward] : std::vector<std::pair<int64_t, int64_t>>{{1, 2}, {1, 1}, {2, 3}}) {
          SCOPED_TRACE(testing::Message() << "P=" << ranks << " N=" << n << " scaling " << static_cast<int>(scaling));
          const ScheduleParams params = {.ranks = ranks,
                                         .microbatches = n,
                                         .costs = {.forward = forward, .backward = backward},
                                         .scaling = scaling};
          const PipelineSchedule schedule = *BuildSchedule(ChimeraWave(), params);
          ASSERT_EQ(CheckAccumulationOrder(schedule), absl::OkStatus());
          const ScheduleTiming timing = *TimeSchedule(schedule, n, params.costs);
          const std::optional<ClosedForm> form = ChimeraWave().closed_form(params);
          ASSERT_EQ(form.has_value(), n % (scaling == Scaling::kConcatenation || n <= ranks ? ranks : 2 * ranks) == 0);
          if (!form) continue;
          if (form->makespan) {
            ASSERT_EQ((Ratio{timing.makespan, timing.unit}), *form->makespan);
          }
          for (int rank = 0; rank < ranks; ++rank) {
            ASSERT_EQ((Ratio{timing.ranks[rank].peak_activations, timing.unit}), form->peak_activations[rank]);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft
