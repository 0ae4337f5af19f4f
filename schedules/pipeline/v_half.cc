// V-Half ("controllable memory"): two stages per rank, placed as a V, like ZB-V. It needs half of ZB-V's memory, the
// same on every rank, and has a few bubbles at start and end.
//
//   P=4, N=4, F=I=W=1 per stage   (f, i, w: chunk 0, stages 0 to 3; F, I, W: chunk 1, stages 7 to 4)
//     rank 0: f0 f1 f2 f3 .. .. .. F0 I0 F1 I1 W0 W1 .. F2 I2 i0 W2 w0 F3 I3 i1 W3 i2 w1 w2 .. i3 w3
//     rank 1: .. f0 f1 f2 f3 .. F0 .. F1 I0 W0 I1 W1 F2 .. i0 I2 w0 F3 W2 i1 I3 i2 w1 W3 w2 i3 w3 ..
//     rank 2: .. .. f0 f1 f2 F0 f3 F1 .. .. I0 W0 F2 I1 i0 W1 w0 F3 I2 i1 W2 i2 I3 w1 w2 i3 W3 w3 ..
//     rank 3: .. .. .. f0 F0 f1 F1 f2 F2 .. .. I0 W0 i0 w0 f3 F3 I1 i1 I2 i2 W1 w1 I3 i3 W2 w2 W3 w3
//
// Its building block (controllable_memory.h), in slots of one stage's F = I = W, d = 3 if P is even, else 0:
//
//     f 2r    F 3P - 2 - r    I 3P + d - 1 + 2r    i 6P + d - 2 - r    on rank r
//
// In chunk 0, a forward takes two slots per rank and a backward one. In chunk 1, a forward takes one slot and a
// backward two. So if one chunk of a rank holds a microbatch for long, the other chunk holds it briefly. The order
// depends on P and N only, never on the given costs. Each stage's weight gradients are in ascending microbatch order.
//
// Constraints: any P >= 1, N >= 1; two stages per rank.
// Time:    equal stages, F = I = W, free transfers, N >= P, in slots of one stage: makespan = span = 6N + 3P - 7 for
//          even P >= 4, 6N + 3P - 4 for odd P >= 3, 6N + 1 for P = 2 (there the span is 6N from N = 3 on). The drawing:
//          24 + 5 = 29. With unequal times the bubble does not grow with N: at P = 4, with F = 1, I = 1.2, W = 0.8 for
//          a whole rank, it is 3.9.
// Memory:  every rank holds at most floor((P + 2) / 2) microbatches' activations, and exactly that many if N >= P.
// Source:  Qi et al. 2024, "Pipeline Parallelism with Controllable Memory", arXiv:2405.15362, for blocks, memory, and
//          "half the bubble of 1F1B", (P - 1) 3 slots, which is an upper bound. The formulas agree with the authors'
//          lists; both are measured here for P <= 80 (tested for P <= 16).
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/controllable_memory.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/v_shape.h"

namespace weft {

absl::StatusOr<PipelineSchedule> BuildVHalf(const ScheduleParams& params) {
  if (absl::Status status = CheckVShape("v-half", params); !status.ok()) return status;
  const int64_t p = params.ranks, d = p % 2 == 0 ? 3 : 0;
  RepeatedBlocks blocks = {.ranks = {}, .limit = 2 * ((params.ranks + 2) / 2), .punctual_weights = true};
  for (int64_t r = 0; r < p; ++r) {
    blocks.ranks.push_back({.forward = {2 * r, 3 * p - 2 - r}, .input = {6 * p + d - 2 - r, 3 * p + d - 1 + 2 * r}});
  }
  return VSchedule(blocks, params.microbatches);
}

// The head of this file gives the source and the conditions.
std::optional<ClosedForm> ClosedFormVHalf(const ScheduleParams& params) {
  const int64_t p = params.ranks;
  const int64_t bubble = p <= 2 ? p - 1 : p % 2 == 0 ? 3 * p - 7 : 3 * p - 4;
  const bool holds = params.microbatches >= p;
  ClosedForm form = ClosedFormOfBlocks(params, holds ? std::optional<int64_t>(bubble) : std::nullopt);
  // With two ranks, one begins first and the other ends last, so the span is shorter than the makespan.
  if (p == 2 && params.microbatches > 2 && form.makespan) form.span->numerator -= params.costs.forward;
  if (holds) form.peak_activations.assign(p, {(p + 2) / 2, 1});
  return form;
}

}  // namespace weft
