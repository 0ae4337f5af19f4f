// Eager 1F1B (DAPPLE's policy B): 1F1B with about twice the warm-up. It keeps a microbatch in reserve on every edge, so
// that transfers hide behind compute.
//
//   P=3, N=4, F=1, B=2   (digits: microbatch; lower case: forward, both cells of a backward are drawn)
//     rank 0: f0 f1 f2 f3 .. .. .. B0 B0 .. B1 B1 .. B2 B2 .. B3 B3
//     rank 1: .. f0 f1 f2 .. B0 B0 f3 B1 B1 .. B2 B2 .. B3 B3 .. ..
//     rank 2: .. .. f0 B0 B0 f1 B1 B1 f2 B2 B2 f3 B3 B3 .. .. .. ..
//
// Rank r runs K - 1 forwards first, with K = min(2(P - r) - 1, limit, N). Then it alternates forward and backward, then
// runs the rest of the backwards. Backwards are in ascending microbatch order (rule P9). The limit is DAPPLE's D, the
// number of microbatches that a device's memory can hold; 0 means no limit. Policy A, K = min(P - r, D), is the
// schedule "1f1b" if D >= P.
//
// Constraints: any P >= 1, N >= 1, limit >= 0.
// Time:    equal stages, free transfers, limit 0 or at least 2P - 2: makespan = (N + P - 1)(F + B), as 1F1B. With F=1,
//          B=2 and an edge latency c up to 1: (N + P - 1)(F + B) + 2(P - 1)c, as GPipe; at P=4, N=8, c=1 it takes 39
//          where 1F1B takes 49. With a smaller limit the first ranks have no microbatch in reserve, and can be late.
// Memory:  rank r holds the activations of at most min(2(P - r) - 1, limit, N) microbatches.
// Source:  Fan et al. 2021, "DAPPLE: A Pipelined Data Parallel Approach for Training Large Models", arXiv:2007.01045,
//          sec. 3.2 (policies A and B).
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"

namespace weft {
namespace {

// Most microbatches in flight on a rank.
int64_t InFlight(const ScheduleParams& params, int rank) {
  const int64_t most = std::min<int64_t>(int64_t{2} * (params.ranks - rank) - 1, params.microbatches);
  return params.limit == 0 ? most : std::min<int64_t>(most, params.limit);
}

}  // namespace

absl::StatusOr<PipelineSchedule> BuildEager1F1B(const ScheduleParams& params) {
  if (absl::Status status = CheckParams(params); !status.ok()) return status;
  PipelineSchedule schedule = {.stages = params.ranks, .placement = LinearPlacement(params.ranks)};
  const int n = params.microbatches;
  for (int rank = 0; rank < params.ranks; ++rank) {
    std::vector<Slot>& order = schedule.order.emplace_back();
    order.reserve(int64_t{2} * n);
    const int warmup = static_cast<int>(InFlight(params, rank)) - 1;
    for (int m = 0; m < warmup; ++m) order.push_back({.kind = SlotKind::kForward, .stage = rank, .microbatch = m});
    for (int m = 0; m < n; ++m) {
      if (warmup + m < n) order.push_back({.kind = SlotKind::kForward, .stage = rank, .microbatch = warmup + m});
      order.push_back({.kind = SlotKind::kBackward, .stage = rank, .microbatch = m});
    }
  }
  return schedule;
}

// Fan et al. 2021, arXiv:2007.01045, sec. 3.2: policy B admits K_i = min(2(S - i) - 1, D) microbatches into stage i. As
// long as each rank admits more than the next, the last rank sets the pace as in 1F1B.
std::optional<ClosedForm> ClosedFormEager1F1B(const ScheduleParams& params) {
  const int64_t p = params.ranks, n = params.microbatches;
  ClosedForm form;
  if (params.limit == 0 || params.limit >= std::min(2 * p - 2, n)) {
    form.makespan = Ratio{(n + p - 1) * (params.costs.forward + params.costs.backward), 1};
  }
  for (int rank = 0; rank < params.ranks; ++rank) form.peak_activations.push_back({InFlight(params, rank), 1});
  return form;
}

}  // namespace weft
