// GEMS: two replicas of the model in opposite directions. Microbatches alternate between them, almost one at a time.
//
//   P=3, N=2, F=1, B=2   (digits: microbatch; lower case: forward, both cells of a backward are drawn)
//     rank 0: f0 .. .. .. .. .. .. B0 B0 f1 B1 B1 .. .. .. ..     lane 0 runs down the ranks with even microbatches,
//     rank 1: .. f0 .. .. .. B0 B0 f1 .. .. .. .. B1 B1 .. ..     lane 1 up with odd ones
//     rank 2: .. .. f0 B0 B0 f1 .. .. .. .. .. .. .. .. B1 B1
//
// For each microbatch in turn, each rank runs the forward and the backward of its stage in the microbatch's lane. The
// forward of the next microbatch follows the backward of this one from rank to rank. So two microbatches are live at a
// time, and each rank holds the activations of one. On each rank, backwards of each stage are in ascending microbatch
// order (rule P9).
//
// Constraints: any P >= 1, N >= 1; an even N gives both replicas the same work. With odd P the middle rank has the same
//          stage in both lanes.
// Time:    equal stages, free transfers: makespan = P(F + B) + (N - 1) max(F + P B, B + P F). With B = 2F the bubble is
//          (P - 1) / (P + 1/2) of the time as N grows. The drawing: 9 + 7 = 16.
// Memory:  the activations of one microbatch, twice the weights. The replicas' gradients are summed before the update.
// Source:  Jain et al. 2020, "GEMS: GPU-Enabled Memory-Aware Model-Parallelism System for Distributed DNN Training", SC
//          2020; the ratio is from Li and Hoefler 2021, arXiv:2107.06925, table 2.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

absl::StatusOr<PipelineSchedule> BuildGems(const ScheduleParams& params) {
  if (absl::Status status = CheckParams(params); !status.ok()) return status;
  const int p = params.ranks;
  PipelineSchedule schedule = {.stages = p, .lanes = 2, .placement = LinearPlacement(p)};
  schedule.placement.push_back(ReversedLane(schedule.placement[0], p));
  for (int rank = 0; rank < p; ++rank) {
    std::vector<Slot>& order = schedule.order.emplace_back();
    order.reserve(int64_t{2} * params.microbatches);
    for (int m = 0; m < params.microbatches; ++m) {
      const int16_t lane = static_cast<int16_t>(m % 2);
      const int stage = lane == 0 ? rank : p - 1 - rank;
      for (SlotKind kind : {SlotKind::kForward, SlotKind::kBackward}) {
        order.push_back({.kind = kind, .lane = lane, .stage = stage, .microbatch = m});
      }
    }
  }
  return schedule;
}

// The forward of a microbatch follows the backward of the microbatch before it over all ranks. The slower of the two
// sets the pace over all ranks, and the rank where it ends then also runs the faster one. Li and Hoefler 2021,
// arXiv:2107.06925, table 2, give the ratio (D - 1) / (D + 1/2), which this time approaches at B = 2F.
std::optional<ClosedForm> ClosedFormGems(const ScheduleParams& params) {
  const int64_t p = params.ranks, n = params.microbatches, f = params.costs.forward, b = params.costs.backward;
  return ClosedForm{.makespan = Ratio{p * (f + b) + (n - 1) * std::max(f + p * b, b + p * f), 1},
                    .peak_activations = std::vector<Ratio>(p, Ratio{1, 1})};
}

}  // namespace weft
