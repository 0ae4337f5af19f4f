// DualPipe: two pipelines in opposite directions over the same ranks, each with half of the microbatches. A rank always
// has a forward of one to overlap with a backward of the other. The communication of one (in the paper the exchange
// between experts) runs under the computation of the other.
//
//   P=4, N=8, F=I=W=1   (f, b, i, w: lane 0, microbatches 0 to 3; F, B, I, W: lane 1, microbatches 4 to 7; b: a whole
//   backward, + the forward of an overlapped pair, drawn as F&B = F + B = 3)
//     rank 0: f0 f1 f2 F4 I4 W4 F5 f3+ B5 B5 .. F6+ b0 b0 B6 B6 .. F7+ b1 b1 B7 B7 i2 w2 i3 w3
//     rank 1: .. f0 F4 f1 F5 f2 B4 B4 F6+ b0 b0 f3+ B5 B5 F7+ b1 b1 B6 B6 b2 b2 .. I7 i3 W7 w3
//     rank 2: .. F4 f0 F5 f1 F6 b0 b0 f2+ B4 B4 F7+ b1 b1 f3+ B5 B5 b2 b2 B6 B6 .. i3 I7 w3 W7
//     rank 3: F4 F5 F6 f0 i0 w0 f1 F7+ b1 b1 .. f2+ B4 B4 b2 b2 .. f3+ B5 B5 b3 b3 I6 W6 I7 W7
//
// Rank r has stage r of lane 0 and stage P - 1 - r of lane 1. Every stage is on two ranks, whose gradients must be
// summed. Lane 0 runs microbatches 0 to N/2 - 1, lane 1 the rest. dual_pipe_phases.h makes the lists, with depth P/2,
// place min(r, P - 1 - r), and the lane that enters at the rank's own end first. Each stage's gradients are in
// ascending microbatch order on each of its ranks.
//
// Constraints: P even, N even, N >= 2P.
// Time:    equal stages, free transfers, F = I >= W, F&B = F + B:
//          makespan = span = N (F + B) + (P/2 - 1)(F&B + B - 3W); the drawing: 24 + 2 = 26.
//          The paper gives this bubble without conditions, but a test here shows it is neither exact nor a bound if
//          F and I differ or W is longer. It is also the idle time of the two middle ranks only: if F&B is less than
//          F + B, the other ranks run fewer pairs and are busier. P = 8, N = 20, F&B = 2: makespan 52, busy 51 on rank
//          0, 49 in the middle. The outputs of a pair count as available at the pair's end.
// Memory:  every rank holds at most P + 1 microbatches' activations (of its one stage each), and twice the weights.
// Source:  DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", arXiv:2412.19437, sec. 3.2.1 and table 2; phases as in its
//          authors' published DualPipe.
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/dual_pipe_phases.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

absl::StatusOr<PipelineSchedule> BuildDualPipe(const ScheduleParams& params) {
  if (absl::Status status = CheckParams(params); !status.ok()) return status;
  const int p = params.ranks, n = params.microbatches;
  if (p % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks = ", p, " for schedule 'dualpipe'; allowed: even numbers, nearest valid: ", p + 1));
  }
  if (const int64_t least = int64_t{2} * p; n % 2 != 0 || n < least) {
    return absl::InvalidArgumentError(absl::StrCat("microbatches = ", n, " for schedule 'dualpipe' with ranks = ", p,
                                                   "; allowed: even numbers from ", least,
                                                   " on, nearest valid: ", n < least ? least : n + 1));
  }
  PipelineSchedule schedule = {.stages = p, .lanes = 2, .placement = LinearPlacement(p), .order = {}};
  schedule.placement.push_back(ReversedLane(schedule.placement[0], p));
  const Direction down = {.lane = 0, .first_microbatch = 0}, up = {.lane = 1, .first_microbatch = n / 2};
  for (int rank = 0; rank < p; ++rank) {
    const bool upper = rank < p / 2;
    DualPipeRank list = {.directions = {upper ? down : up, upper ? up : down}, .microbatches = n / 2, .depth = p / 2};
    list.place = upper ? rank : p - 1 - rank;
    list.directions[0].stage = list.place;
    list.directions[1].stage = p - 1 - list.place;
    schedule.order.push_back(DualPipeList(list));
  }
  return schedule;
}

// DeepSeek-AI 2024, table 2. The head of this file lists the conditions.
std::optional<ClosedForm> ClosedFormDualPipe(const ScheduleParams& params) {
  const int64_t p = params.ranks, n = params.microbatches;
  const int64_t f = params.costs.forward, b = params.costs.backward, w = params.costs.weight;
  ClosedForm form;
  if (b - w == f && w <= f && (params.costs.pair == 0 || params.costs.pair == f + b)) {
    form.makespan = form.span = Ratio{n * (f + b) + (p / 2 - 1) * (f + 2 * b - 3 * w), 1};
  }
  form.peak_activations.assign(p, {p + 1, 1});
  return form;
}

}  // namespace weft
