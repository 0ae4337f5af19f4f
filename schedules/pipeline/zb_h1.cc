// ZB-H1 ("ZB1P"): 1F1B with each backward split into its two halves. The rank below waits only for the input gradient,
// so the weight gradients move to where a rank would otherwise idle.
//
//   P=3, N=4, F=I=W=1   (f: forward, i: input gradient, w: weight gradient, with its microbatch)
//     rank 0: f0 f1 f2 .. .. i0 w0 f3 i1 w1 i2 w2 i3 w3
//     rank 1: .. f0 f1 .. i0 f2 i1 w0 f3 i2 w1 i3 w2 w3
//     rank 2: .. .. f0 i0 f1 i1 f2 i2 w0 f3 i3 w1 w2 w3
//
// Rank r runs 1F1B's list with i in place of each backward. It runs w(m) right after i(m + r), or at the end if there
// is no such i. So all ranks hold as much as 1F1B's rank 0, and all weight gradients are in ascending microbatch order.
//
// Constraints: any P >= 1, N >= 1, also N < P.
// Time:    equal stages, free transfers: makespan = N (F + B) + (P - 1)(F + I) - (min(P, N) - 1) min(F, I, W). With
//          N >= P and W <= F, I the bubble is the paper's (P - 1)(F + I - W), a third of 1F1B's at F = I = W. The
//          drawing: 12 + 2 = 14. The span is as long, if W <= F, I.
// Memory:  every rank holds the activations of at most min(P, N) microbatches.
// Source:  Qi et al. 2023, "Zero Bubble Pipeline Parallelism", arXiv:2401.10241, sec. 2.1 (handcrafted schedule H1).
//          The paper gives the bubble for W <= F, I. The general formula is measured, and tested here.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

absl::StatusOr<PipelineSchedule> BuildZbH1(const ScheduleParams& params) {
  if (absl::Status status = CheckParams(params); !status.ok()) return status;
  PipelineSchedule schedule = {
      .stages = params.ranks, .lanes = 1, .placement = LinearPlacement(params.ranks), .order = {}};
  const int n = params.microbatches;
  for (int rank = 0; rank < params.ranks; ++rank) {
    std::vector<Slot>& order = schedule.order.emplace_back();
    order.reserve(size_t{3} * n);
    auto add = [&](SlotKind kind, int m) { order.push_back({.kind = kind, .stage = rank, .microbatch = m}); };
    const int warmup = std::min(params.ranks - rank - 1, n);
    for (int m = 0; m < warmup; ++m) add(SlotKind::kForward, m);
    for (int m = 0; m < n; ++m) {
      if (warmup + m < n) add(SlotKind::kForward, warmup + m);
      add(SlotKind::kBackwardInput, m);
      if (m >= rank) add(SlotKind::kBackwardWeight, m - rank);
    }
    for (int m = std::max(n - rank, 0); m < n; ++m) add(SlotKind::kBackwardWeight, m);
  }
  return schedule;
}

// The head of this file gives the source and the conditions.
std::optional<ClosedForm> ClosedFormZbH1(const ScheduleParams& params) {
  const int64_t p = params.ranks, n = params.microbatches;
  const int64_t f = params.costs.forward, w = params.costs.weight, i = params.costs.backward - w;
  const int64_t makespan = n * (f + i + w) + (p - 1) * (f + i) - (std::min(p, n) - 1) * std::min({f, i, w});
  ClosedForm form = {.makespan = Ratio{makespan, 1}};
  if (w <= std::min(f, i)) form.span = form.makespan;
  form.peak_activations.assign(p, {std::min(p, n), 1});
  return form;
}

}  // namespace weft
