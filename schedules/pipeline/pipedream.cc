// PipeDream and PipeDream-2BW: 1F1B that never flushes. The next iteration's forwards fill the bubble, so they use
// weights that lack some recent gradients. These schedules therefore change what is trained.
//
//   P=3, N=4, F=1, B=2: one repetition of the steady state   (digits: microbatch; ' of the next repetition)
//     rank 0: f2 B0 B0 f3 B1 B1 f0' B2 B2 f1' B3 B3
//     rank 1: f1 B0 B0 f2 B1 B1 f3 B2 B2 f0' B3 B3
//     rank 2: f0 B0 B0 f1 B1 B1 f2 B2 B2 f3 B3 B3
//
// Rank r is P - r - 1 forwards ahead. Backwards are in ascending microbatch order (rule P9).
//
// PipeDream updates after every microbatch. A microbatch's forward on rank r uses the newest weights there. Its
// backward uses the same weights, so rank r keeps P - r versions (the paper's weight stashing; P - r microbatches are
// in flight, each with its own version). Staleness: the gradient that makes version t + 1 was computed with version t -
// (P - r - 1): none on the last rank, P - 1 updates on the first. Ranks differ in it, as in the paper without vertical
// sync.
//
// PipeDream-2BW sums the gradients of all N microbatches into one update. On all ranks it uses the weights before the
// latest update: W(t+1) = W(t) - lr * g(W(t-1)). It keeps two versions, and the staleness is one update everywhere.
//
// Constraints: any P >= 1; PipeDream N >= P - 1 (no rank is more than one repetition ahead), 2BW N >= P (the paper's
//          m >= d: two versions suffice).
// Time:    equal stages, free transfers: each further repetition takes exactly N(F + B), without a bubble. One alone
//          takes (N + P - 1)(F + B), as 1F1B.
// Memory:  rank r holds the activations of P - r microbatches; weights: P - r versions, or 2.
// Source:  Narayanan et al. 2019, "PipeDream: Generalized Pipeline Parallelism for DNN Training", SOSP 2019; Narayanan
//          et al. 2021, "Memory-Efficient Pipeline-Parallel DNN Training", arXiv:2006.09503, sec. 3.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"

namespace weft {
namespace {

absl::StatusOr<PipelineSchedule> WithoutFlush(const ScheduleParams& params, int fewest_microbatches) {
  if (absl::Status status = CheckParams(params); !status.ok()) return status;
  const int p = params.ranks, n = params.microbatches;
  if (n < fewest_microbatches) {
    return absl::InvalidArgumentError(absl::StrCat("microbatches = ", n, " with ", p, " ranks; allowed: at least ",
                                                   fewest_microbatches, ", nearest valid: ", fewest_microbatches));
  }
  PipelineSchedule schedule = {.stages = p, .placement = LinearPlacement(p)};
  for (int rank = 0; rank < p; ++rank) {
    std::vector<Slot>& order = schedule.order.emplace_back();
    order.reserve(int64_t{2} * n);
    for (int m = 0; m < n; ++m) {
      const int forward = p - rank - 1 + m;
      order.push_back({.kind = SlotKind::kForward,
                       .stage = rank,
                       .microbatch = forward % n,
                       .ahead = static_cast<uint8_t>(forward / n)});
      order.push_back({.kind = SlotKind::kBackward, .stage = rank, .microbatch = m});
    }
  }
  return schedule;
}

}  // namespace

absl::StatusOr<PipelineSchedule> BuildPipeDream(const ScheduleParams& params) {
  absl::StatusOr<PipelineSchedule> schedule = WithoutFlush(params, params.ranks - 1);
  if (!schedule.ok()) return schedule;
  Asynchrony& asynchrony = schedule->asynchrony.emplace();
  for (int rank = 0; rank < params.ranks; ++rank) asynchrony.versions.push_back(params.ranks - rank);
  return schedule;
}

absl::StatusOr<PipelineSchedule> BuildPipeDream2Bw(const ScheduleParams& params) {
  absl::StatusOr<PipelineSchedule> schedule = WithoutFlush(params, params.ranks);
  if (!schedule.ok()) return schedule;
  schedule->asynchrony = Asynchrony{.microbatches_per_update = params.microbatches,
                                    .versions = std::vector<int>(params.ranks, 2),
                                    .uses = Asynchrony::Uses::kPrevious};
  return schedule;
}

// Narayanan et al. 2019, sec. 3.2, and 2021, arXiv:2006.09503, sec. 3.1: P - r microbatches are in flight on rank r.
// The makespan is for one repetition alone, which is 1F1B. Their claim of no bubble is for the steady state.
std::optional<ClosedForm> ClosedFormPipeDream(const ScheduleParams& params) {
  const int64_t p = params.ranks, n = params.microbatches;
  ClosedForm form = {.makespan = Ratio{(n + p - 1) * (params.costs.forward + params.costs.backward), 1}};
  for (int64_t rank = 0; rank < p; ++rank) form.peak_activations.push_back({p - rank, 1});
  return form;
}

}  // namespace weft
