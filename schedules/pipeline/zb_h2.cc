// ZB-H2 ("ZB2P"): ZB-H1 with twice the warm-up. Once a rank has begun, it runs without idle time until it is done. But
// the ranks begin and end one after the other.
//
//   P=3, N=6, F=I=W=1   (f: forward, i: input gradient, w: weight gradient, with its microbatch)
//     rank 0: f0 f1 f2 f3 f4 i0 w0 f5 i1 w1 i2 w2 i3 w3 i4 w4 i5 w5 .. ..
//     rank 1: .. f0 f1 f2 i0 f3 i1 f4 i2 w0 f5 i3 w1 i4 w2 i5 w3 w4 w5 ..
//     rank 2: .. .. f0 i0 f1 i1 f2 i2 f3 i3 f4 i4 w0 f5 i5 w1 w2 w3 w4 w5
//
// Rank r runs min(2(P - r) - 1, N) forwards. Then for every m it runs i(m), w(m - 2r) if there is one, and the next
// forward if there is one. Last come the remaining weight gradients, ascending.
//
// The gain is in the span: a rank that updates its weights as soon as it is done, without waiting for the others (plan
// field post_validation, rule P15), begins the next iteration without a bubble. With a barrier between iterations, or
// if the ranks wait for the gradient norm, the makespan counts. Then ZB-H2 is no better than ZB-H1 at F = I = W.
//
// Constraints: any P >= 1, N >= 1. The paper's figures need N >= 2P - 1; with less, the warm-up is cut short.
// Time:    equal stages, free transfers, W <= F, I; n = min(N, 2P - 1):
//          span     = N (F + B) + (P - 1)(F + I) - (n - 1) W; bubble (P - 1)(F + I - 2W) if N >= 2P - 1
//          makespan = N (F + B) + (P - 1)(F + I) - floor(n / 2) W - floor((n - 1) / 2) min(W, I - W)
//          The drawing: span 18, makespan 18 + 2 = 20.
// Memory:  every rank holds the activations of at most min(2P - 1, N) microbatches.
// Source:  Qi et al. 2023, arXiv:2401.10241, sec. 2.1 (handcrafted schedule H2). The paper's bubble is the
//          bubble of the span. The formulas for N < 2P - 1 and for the makespan are measured, and tested here.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

absl::StatusOr<PipelineSchedule> BuildZbH2(const ScheduleParams& params) {
  if (absl::Status status = CheckParams(params); !status.ok()) return status;
  PipelineSchedule schedule = {
      .stages = params.ranks, .lanes = 1, .placement = LinearPlacement(params.ranks), .order = {}};
  const int n = params.microbatches;
  for (int rank = 0; rank < params.ranks; ++rank) {
    std::vector<Slot>& order = schedule.order.emplace_back();
    order.reserve(size_t{3} * n);
    auto add = [&](SlotKind kind, int m) { order.push_back({.kind = kind, .stage = rank, .microbatch = m}); };
    const int warmup = std::min(2 * (params.ranks - rank) - 1, n), lag = 2 * rank;
    for (int m = 0; m < warmup; ++m) add(SlotKind::kForward, m);
    for (int m = 0; m < n; ++m) {
      add(SlotKind::kBackwardInput, m);
      if (m >= lag) add(SlotKind::kBackwardWeight, m - lag);
      if (warmup + m < n) add(SlotKind::kForward, warmup + m);
    }
    for (int m = std::max(n - lag, 0); m < n; ++m) add(SlotKind::kBackwardWeight, m);
  }
  return schedule;
}

// The head of this file gives the source and the conditions.
std::optional<ClosedForm> ClosedFormZbH2(const ScheduleParams& params) {
  const int64_t p = params.ranks, n = params.microbatches, full = std::min(2 * p - 1, n);
  const int64_t f = params.costs.forward, w = params.costs.weight, i = params.costs.backward - w;
  ClosedForm form;
  if (w <= std::min(f, i)) {
    const int64_t start = n * (f + i + w) + (p - 1) * (f + i);
    form.makespan = Ratio{start - full / 2 * w - (full - 1) / 2 * std::min(w, i - w), 1};
    form.span = Ratio{start - (full - 1) * w, 1};
  }
  form.peak_activations.assign(p, {full, 1});
  return form;
}

}  // namespace weft
