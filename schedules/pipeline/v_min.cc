// V-Min ("controllable memory"): two stages per rank, placed as a V, like ZB-V. It needs a third of ZB-V's memory, the
// least possible for a repeated block, and has more bubbles at start and end.
//
//   P=3, N=3, F=I=W=1 per stage   (f, i, w: chunk 0, stages 0 to 2; F, I, W: chunk 1, stages 5 to 3)
//     rank 0: f0 f1 .. .. .. F0 I0 f2 W0 F1 I1 i0 W1 w0 .. F2 I2 i1 W2 w1 .. i2 w2
//     rank 1: .. f0 f1 .. F0 .. F1 I0 W0 f2 i0 I1 w0 W1 F2 .. i1 I2 w1 W2 i2 w2 ..
//     rank 2: .. .. f0 F0 f1 F1 .. .. I0 i0 W0 w0 f2 F2 I1 i1 W1 w1 I2 i2 W2 w2 ..
//
// Its building block (controllable_memory.h), in slots of one stage's F = I = W, d = 2 if 3 divides P, else 0:
//
//     f r    F 2P - 1 - r    I 2P + d + r    i 4P + d - 1 - r    on rank r
//
// No microbatch waits on its way: each runs down, up, down and up again at one rank per slot. So if the times are
// unequal, every microbatch loses a little, and the bubble grows with N; V-Half's does not. The order depends on P and
// N only, never on the given costs. Each stage's weight gradients are in ascending microbatch order.
//
// Constraints: any P >= 1, N >= 1; two stages per rank.
// Time:    equal stages, F = I = W, free transfers, P >= 2, in slots of one stage: makespan = span = 6N + 4P - 5 for
//          P = 1 modulo 3 and for N = 1, else 6N + 4P - 7 (the authors' lists: 4P - 5 also for P = 2 modulo 3). The
//          drawing: 18 + 5 = 23. At P = 4, with F = 1, I = 1.2, W = 0.8 for a whole rank, the bubble is 10.4 for N = 8
//          and 15.2 for N = 16.
// Memory:  every rank holds at most floor((P + 4) / 3) microbatches' activations; for P = 2 modulo 3 some ranks hold
//          half a microbatch less.
// Source:  Qi et al. 2024, "Pipeline Parallelism with Controllable Memory", arXiv:2405.15362, for blocks, memory, and
//          "two thirds of the bubble of 1F1B", (P - 1) 4 slots, which is an upper bound. The formulas are measured here
//          for P <= 80 (tested for P <= 16).
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

absl::StatusOr<PipelineSchedule> BuildVMin(const ScheduleParams& params) {
  if (absl::Status status = CheckVShape("v-min", params); !status.ok()) return status;
  const int64_t p = params.ranks, d = p % 3 == 0 ? 2 : 0;
  // With a longer lead the first microbatches of chunk 0 delay those of chunk 1. With a shorter lead, gaps remain at
  // the start.
  RepeatedBlocks blocks = {.ranks = {}, .limit = 2 * ((params.ranks + 4) / 3), .lead = 6};
  for (int64_t r = 0; r < p; ++r) {
    blocks.ranks.push_back({.forward = {r, 2 * p - 1 - r}, .input = {4 * p + d - 1 - r, 2 * p + d + r}});
  }
  return VSchedule(blocks, params.microbatches);
}

// The head of this file gives the source and the conditions.
std::optional<ClosedForm> ClosedFormVMin(const ScheduleParams& params) {
  const int64_t p = params.ranks;
  return ClosedFormOfBlocks(params, p == 1 ? 0 : p % 3 == 1 || params.microbatches == 1 ? 4 * p - 5 : 4 * p - 7);
}

}  // namespace weft
