// 1F1B ("PipeDream-Flush", DAPPLE's policy A): after a warm-up, each rank alternates one forward and one backward, so
// that a microbatch's activations are freed as early as the last rank allows.
//
//   P=3, N=4, F=1, B=2   (digits: microbatch; lower case: forward, both cells of a backward are drawn)
//     rank 0: f0 f1 f2 .. .. .. .. B0 B0 f3 B1 B1 .. B2 B2 .. B3 B3
//     rank 1: .. f0 f1 .. .. B0 B0 f2 B1 B1 f3 B2 B2 .. B3 B3 .. ..
//     rank 2: .. .. f0 B0 B0 f1 B1 B1 f2 B2 B2 f3 B3 B3 .. .. .. ..
//
// Rank r runs w = min(P - r - 1, N) forwards first, then N - w pairs (forward w + i, backward i), then the last w
// backwards. Backwards are in ascending microbatch order (rule P9).
//
// Constraints: any P >= 1, N >= 1, also N < P.
// Time:    equal stages, free transfers: makespan = (N + P - 1)(F + B), as GPipe; bubble / ideal = (P - 1) / N. The
//          drawing: (4 + 2) * 3 = 18. An edge latency c costs about 2c per microbatch in steady state.
// Memory:  rank r holds the activations of at most min(P - r, N) microbatches.
// Source:  Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM",
//          arXiv:2104.04473, sec. 2.2; first in Narayanan et al. 2021, arXiv:2006.09503 ("PipeDream-Flush") and Fan et
//          al. 2021, arXiv:2007.01045 (DAPPLE).
#include <algorithm>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

absl::StatusOr<PipelineSchedule> Build1F1B(const ScheduleParams& params) {
  if (absl::Status status = CheckParams(params); !status.ok()) return status;
  PipelineSchedule schedule = {
      .stages = params.ranks, .lanes = 1, .placement = LinearPlacement(params.ranks), .order = {}};
  const int n = params.microbatches;
  for (int rank = 0; rank < params.ranks; ++rank) {
    std::vector<Slot>& order = schedule.order.emplace_back();
    auto add = [&](SlotKind kind, int m) {
      order.push_back({.kind = kind, .lane = 0, .stage = rank, .microbatch = m});
    };
    const int warmup = std::min(params.ranks - rank - 1, n);
    for (int m = 0; m < warmup; ++m) add(SlotKind::kForward, m);
    for (int m = 0; m < n; ++m) {
      if (warmup + m < n) add(SlotKind::kForward, warmup + m);
      add(SlotKind::kBackward, m);
    }
  }
  return schedule;
}

// Narayanan et al. 2021, arXiv:2104.04473, sec. 2.2: the time in the bubble is (p-1)(t_f + t_b), which is (p-1)/m of
// the ideal time, the same as GPipe. The first rank holds activations for at most p microbatches instead of m. Rank r
// starts its first backward with p-r forwards done, and each further forward follows a backward, so it holds min(p-r,
// m).
std::optional<ClosedForm> ClosedForm1F1B(const ScheduleParams& params) {
  const int64_t p = params.ranks, n = params.microbatches;
  ClosedForm form = {.makespan = Ratio{(n + p - 1) * (params.costs.forward + params.costs.backward), 1}};
  for (int64_t rank = 0; rank < p; ++rank) form.peak_activations.push_back({std::min(p - rank, n), 1});
  return form;
}

}  // namespace weft
