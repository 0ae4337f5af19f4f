// GPipe: all forwards, then all backwards, then the optimizer.
//
//   P=3, N=3, F=1, B=2   (digits: microbatch; lower case: forward, both cells of a backward are drawn)
//     rank 0: f0 f1 f2 .. .. .. .. .. .. B0 B0 B1 B1 B2 B2
//     rank 1: .. f0 f1 f2 .. .. .. B0 B0 B1 B1 B2 B2 .. ..
//     rank 2: .. .. f0 f1 f2 B0 B0 B1 B1 B2 B2 .. .. .. ..
//
// Backwards are first in, first out (the paper's figure draws last in, first out). The makespan is the same, and the
// gradients of a stage accumulate in ascending microbatch order (rule P9).
//
// Constraints: any P >= 1, N >= 1, also N < P.
// Time:    equal stages, free transfers: makespan = (N + P - 1)(F + B); bubble / makespan = (P - 1) / (N + P - 1).
//          With an edge latency c: (N + P - 1)(F + B) + 2(P - 1)c. The drawing: (3 + 2) * 3 = 15.
// Memory:  every rank holds the activations of all N microbatches.
// Source:  Huang et al. 2019, "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism",
//          arXiv:1811.06965, sec. 2.3.
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

absl::StatusOr<PipelineSchedule> BuildGPipe(const ScheduleParams& params) {
  if (absl::Status status = CheckParams(params); !status.ok()) return status;
  PipelineSchedule schedule = {
      .stages = params.ranks, .lanes = 1, .placement = LinearPlacement(params.ranks), .order = {}};
  schedule.order.resize(params.ranks);
  for (int rank = 0; rank < params.ranks; ++rank) {
    for (SlotKind kind : {SlotKind::kForward, SlotKind::kBackward}) {
      for (int m = 0; m < params.microbatches; ++m) {
        schedule.order[rank].push_back({.kind = kind, .lane = 0, .stage = rank, .microbatch = m});
      }
    }
  }
  return schedule;
}

// Huang et al. 2019, arXiv:1811.06965, sec. 2.3: with K partitions and M microbatches the bubble takes (K-1)/(M+K-1) of
// the time ("O((K-1)/(M+K-1))"; exact for equal stages). Each accelerator keeps the stage inputs of all M.
std::optional<ClosedForm> ClosedFormGPipe(const ScheduleParams& params) {
  const int64_t p = params.ranks, n = params.microbatches;
  return ClosedForm{.makespan = Ratio{(n + p - 1) * (params.costs.forward + params.costs.backward), 1},
                    .peak_activations = std::vector<Ratio>(p, Ratio{n, 1})};
}

}  // namespace weft
