// Looped breadth-first: several stages per rank, placed in a loop. A rank runs all microbatches of one stage before the
// next stage.
//
//   P=2, v=2, N=3, F=B=2, so 1 per slot   (digits: stage, microbatch; lower case: forward)
//     rank 0: f00 f01 f02 f20 f21 f22 ... ... B20 B21 B22 B00 B01 B02
//     rank 1: ... f10 f11 f12 f30 f31 f32 B30 B31 B32 B10 B11 B12 ...
//
// Rank r holds stages r, P + r, 2P + r, ... It runs all N forwards of each in turn, then all N backwards of each from
// the last down. So each stage's parameters are gathered once forward and once backward per iteration, whatever N is:
// no schedule here gathers sharded parameters less often. Backwards are first in, first out. The makespan is the same
// as with last in, first out (PyTorch's LoopedBFS), and gradients accumulate in ascending microbatch order (rule P9).
//
// Constraints: any P >= 1, N >= 1, v >= 1 (default 2); v = 1 is GPipe. Best with N >= P.
// Time:    equal stages, free transfers: makespan = ((v - 1) max(N, P) + N + P - 1)(F + B) / v; with N >= P the
//          bubble is (P - 1)(F + B) / v, as interleaved 1F1B. The drawing: (3 + 4) * 4 / 2 = 14.
// Memory:  every rank holds the activations of all N microbatches.
// Source:  Lamy-Poirier 2022, "Breadth-First Pipeline Parallelism", arXiv:2211.05953.
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

int VirtualStages(const ScheduleParams& params) { return params.virtual_stages == 0 ? 2 : params.virtual_stages; }

}  // namespace

absl::StatusOr<PipelineSchedule> BuildLoopedBfs(const ScheduleParams& params) {
  const int v = VirtualStages(params);
  if (absl::Status status = CheckParams(params, v); !status.ok()) return status;
  const int stages = v * params.ranks;
  PipelineSchedule schedule = {.stages = stages, .placement = LoopedPlacement(params.ranks, stages)};
  for (int rank = 0; rank < params.ranks; ++rank) {
    std::vector<Slot>& order = schedule.order.emplace_back();
    order.reserve(int64_t{2} * v * params.microbatches);
    auto add_all = [&](SlotKind kind, int chunk) {
      for (int m = 0; m < params.microbatches; ++m) {
        order.push_back({.kind = kind, .stage = chunk * params.ranks + rank, .microbatch = m});
      }
    };
    for (int chunk = 0; chunk < v; ++chunk) add_all(SlotKind::kForward, chunk);
    for (int chunk = v - 1; chunk >= 0; --chunk) add_all(SlotKind::kBackward, chunk);
  }
  return schedule;
}

// Lamy-Poirier 2022, arXiv:2211.05953: for N >= P, the bubble is GPipe's divided by the stages per rank. With fewer
// microbatches each loop takes as long as the first microbatch takes around it.
std::optional<ClosedForm> ClosedFormLoopedBfs(const ScheduleParams& params) {
  const int64_t p = params.ranks, n = params.microbatches, v = VirtualStages(params);
  const int64_t slots = (v - 1) * std::max(n, p) + n + p - 1;
  return ClosedForm{.makespan = Ratio{slots * (params.costs.forward + params.costs.backward), v},
                    .peak_activations = std::vector<Ratio>(p, Ratio{n, 1})};
}

}  // namespace weft
