// DualPipeV ("cut in half"): DualPipe without its second copy of the weights. DualPipe is folded in the middle. Its two
// directions become the two halves of one pipeline, placed as a V over half of the ranks.
//
//   P=2, N=4, F=I=W=1 per stage   (f, b, i, w: stages 0 and 1; F, B, I, W: stages 3 and 2; b: a whole backward, + the
//   forward of an overlapped pair, drawn as F&B = F + B = 3)
//     rank 0: f0 f1 f2 F0 I0 W0 F1 f3+ B1 B1 .. F2+ b0 b0 B2 B2 .. F3+ b1 b1 B3 B3 i2 w2 i3 w3
//     rank 1: .. f0 F0 f1 F1 f2 B0 B0 F2+ b0 b0 f3+ B1 B1 F3+ b1 b1 B2 B2 b2 b2 .. I3 i3 W3 w3
//
// Rank r has stages r and 2P - 1 - r. dual_pipe_phases.h makes the lists, with depth P, place r, and stage r's
// direction first. Each stage's gradients are in ascending microbatch order.
//
// Constraints: any P >= 1, N >= 2P; two stages per rank (virtual_stages = 2, or not given).
// Time:    equal stages, free transfers, F = I >= W, F&B = F + B, in slots of one stage: makespan = span = 2N (F + B) +
//          (P - 1)(F&B + B - 3W), DualPipe's with 2P ranks. The drawing: 24 + 2 = 26.
// Memory:  every rank holds at most 2P + 1 stages' activations, each half a microbatch.
// Source:  Sea AI Lab 2025 (a blog post, which calls it "cut in half"), adopted by DualPipe's authors in their
//          repository (DualPipe: arXiv:2412.19437). The order is that of PyTorch 2.13's ScheduleDualPipeV, which also
//          needs N >= 2P.
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/dual_pipe_phases.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/v_shape.h"

namespace weft {

absl::StatusOr<PipelineSchedule> BuildDualPipeV(const ScheduleParams& params) {
  if (absl::Status status = CheckVShape("dualpipev", params); !status.ok()) return status;
  const int p = params.ranks, n = params.microbatches;
  if (const int64_t least = int64_t{2} * p; n < least) {
    return absl::InvalidArgumentError(absl::StrCat("microbatches = ", n, " for schedule 'dualpipev' with ranks = ", p,
                                                   "; allowed: from ", least, " on, nearest valid: ", least));
  }
  PipelineSchedule schedule = {.stages = 2 * p, .lanes = 1, .placement = SnakePlacement(p, 2 * p), .order = {}};
  for (int rank = 0; rank < p; ++rank) {
    schedule.order.push_back(
        DualPipeList({.directions = {Direction{.stage = rank}, Direction{.stage = 2 * p - 1 - rank}},
                      .microbatches = n,
                      .depth = p,
                      .place = rank}));
  }
  return schedule;
}

// DualPipe's formula with 2P ranks. The head of this file lists the conditions.
std::optional<ClosedForm> ClosedFormDualPipeV(const ScheduleParams& params) {
  const int64_t p = params.ranks, n = params.microbatches;
  const __int128 f = params.costs.forward, b = params.costs.backward, w = params.costs.weight;
  ClosedForm form;
  if (b - w == f && w <= f && (params.costs.pair == 0 || params.costs.pair == f + b)) {
    form.makespan = form.span = RatioIfItFits(2 * n * (f + b) + (p - 1) * (f + 2 * b - 3 * w), 2);
  }
  form.peak_activations.assign(p, {2 * p + 1, 2});
  return form;
}

}  // namespace weft
