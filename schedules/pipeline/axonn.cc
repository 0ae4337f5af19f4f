// AxoNN: no fixed order between forwards and backwards. Each rank runs the message that reached it first. The first
// stage admits a new microbatch for each one that came back.
//
//   P=3, N=4, F=1, B=2, limit 3   (digits: microbatch; lower case: forward, both cells of a backward are drawn)
//     rank 0: f0 f1 f2 .. .. .. .. B0 B0 f3 B1 B1 .. B2 B2 .. B3 B3
//     rank 1: .. f0 f1 f2 .. B0 B0 .. B1 B1 f3 B2 B2 .. B3 B3 .. ..
//     rank 2: .. .. f0 B0 B0 f1 B1 B1 f2 B2 B2 f3 B3 B3 .. .. .. ..
//
// Rule (P6 of docs/program.md, ARRIVAL): a free rank first runs slots that wait for no message: the last stage's
// backward follows its forward at once, and the first stage's next forward follows its backward. Otherwise it runs what
// arrived first. At the same moment, the forward goes first, then the lower microbatch. Forwards among themselves, and
// backwards among themselves, stay in ascending microbatch order (rule P9).
//
// Constraints: any P >= 1, N >= 1, one stage per rank; limit >= 1, microbatches in flight (default P, the paper's
//          G_inter).
// Time:    no formula. With equal stages, F=1, B=2 and free transfers, it equals 1F1B up to P = 4. Beyond, first come,
//          first served costs a little: P=8 takes 75 at N=16 (1F1B: 69) and 124 at N=32 (117).
// Memory:  at most min(limit, N) microbatches on every rank, and only one at a time on the last. 1F1B needs less: P - r
//          on rank r.
// Source:  Singh and Bhatele 2022, "AxoNN: An asynchronous, message-driven parallel framework for extreme-scale deep
//          learning", arXiv:2110.13005.
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

int Limit(const ScheduleParams& params) { return params.limit == 0 ? params.ranks : params.limit; }

}  // namespace

absl::StatusOr<PipelineSchedule> BuildAxonn(const ScheduleParams& params) {
  if (absl::Status status = CheckParams(params); !status.ok()) return status;
  PipelineSchedule schedule = {.stages = params.ranks, .placement = LinearPlacement(params.ranks)};
  schedule.message_driven = MessageDriven{.rule = MessageDriven::Rule::kArrival, .limit = Limit(params)};
  for (int rank = 0; rank < params.ranks; ++rank) {
    std::vector<Slot>& order = schedule.order.emplace_back();
    order.reserve(int64_t{2} * params.microbatches);
    for (SlotKind kind : {SlotKind::kForward, SlotKind::kBackward}) {
      for (int m = 0; m < params.microbatches; ++m) {
        order.push_back({.kind = kind, .stage = rank, .microbatch = m});
      }
    }
  }
  return schedule;
}

// The literature has no formula.
std::optional<ClosedForm> ClosedFormAxonn(const ScheduleParams& params) { return std::nullopt; }

}  // namespace weft
