// Interleaved zero-bubble (PyTorch's ScheduleInterleavedZeroBubble, "ZB1P"): the interleaved 1F1B table with each
// backward split into its two halves and half the warm-up. On rank r the weight gradients are r backwards late. With
// one stage per rank it is ZB-H1.
//
//   P=2, v=2, N=4, F=I=W=1 per stage   (lower case: stages 0 and 1, upper case: stages 2 and 3)
//     rank 0: f0 f1 F0 F1 .. I0 W0 f2 I1 W1 f3 i0 w0 F2 i1 w1 F3 I2 W2 I3 W3 i2 w2 i3 w3
//     rank 1: .. f0 f1 F0 I0 F1 I1 W0 f2 i0 W1 f3 i1 w0 F2 I2 w1 F3 I3 W2 i2 W3 i3 w2 w3
//
// Stage k P + r is on rank r. Microbatches go in groups of G: a rank runs a group through its first stage, then its
// second, and so on; its backwards do the same with the last stage first. Of the v N forwards in that order rank r runs
// min((v - 1) G + P - 1 - r, v N) first. Then it takes turns: a forward, an input gradient and, from turn r on (counted
// from 0), the weight gradient of the microbatch and stage whose input gradient ran r turns before. Then it runs what
// is left. All of a stage's gradients are in ascending microbatch order.
//
// Constraints: any P, N >= 1, v = virtual_stages >= 1 (default 2), G = group from min(P, N) to N: with a smaller G,
//          ranks would wait for each other. The last group may be smaller than G. The default G is the smallest for
//          which the last group is full or has at least P microbatches: P if N is a multiple of P, else PyTorch's
//          N / floor(N / P) where that divides.
// Time:    equal stages, free transfers, N >= P, the last group full or at least P (true for the default group):
//          makespan = N (F + B) + (P - 1)(F + I - min(F, I, W)) / v; the drawing in units of a stage: 24 + 1. But each
//          microbatch crosses v P - 1 edges, so this schedule suffers first when transfers take time: measured at
//          P = 4, N = 8, v = 2, F = 1, B = 2, from 25.5 at latency 0 to 51 at latency 1 (ZB-H1: 27 to 41).
// Memory:  every rank holds at most min((v - 1) G + P, v N) stages' activations, each 1/v of a microbatch: at G = P, P
//          microbatches, less than interleaved 1F1B.
// Source:  PyTorch 2.13, torch.distributed.pipelining.schedules, whose order this reproduces; Narayanan et al. 2021,
//          arXiv:2104.04473, sec. 2.2, for the table; Qi et al. 2023, arXiv:2401.10241, for the halves. No paper gives
//          formulas. These are measured, and tested here.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"

namespace weft {
namespace {

bool LastGroupIsFull(int group, int microbatches, int ranks) {
  return microbatches % group == 0 || microbatches % group >= ranks;
}

int Group(const ScheduleParams& params) {
  if (params.group != 0) return params.group;
  int group = std::min(params.ranks, params.microbatches);
  while (!LastGroupIsFull(group, params.microbatches, params.ranks)) ++group;
  return group;
}

int StagesPerRank(const ScheduleParams& params) { return params.virtual_stages == 0 ? 2 : params.virtual_stages; }

}  // namespace

absl::StatusOr<PipelineSchedule> BuildInterleavedZb(const ScheduleParams& params) {
  const int p = params.ranks, n = params.microbatches, v = StagesPerRank(params);
  if (absl::Status status = CheckParams(params, v); !status.ok()) return status;
  if (params.group != 0 && (params.group < std::min(p, n) || params.group > n)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "group = ", params.group, " for schedule 'interleaved-zb' with ranks = ", p, " and microbatches = ", n,
        "; allowed: ", std::min(p, n), " to ", n, ", nearest valid: ", std::clamp(params.group, std::min(p, n), n)));
  }
  const int group = Group(params);
  // The table: chunk and microbatch of the j-th forward of every rank.
  std::vector<std::pair<int, int>> table;
  table.reserve(size_t(v) * n);
  for (int first = 0; first < n; first += group) {
    for (int chunk = 0; chunk < v; ++chunk) {
      for (int m = first; m < std::min<int64_t>(int64_t{first} + group, n); ++m) table.push_back({chunk, m});
    }
  }
  const int total = static_cast<int>(table.size());
  PipelineSchedule schedule = {.stages = p * v, .lanes = 1, .placement = LoopedPlacement(p, p * v), .order = {}};
  for (int rank = 0; rank < p; ++rank) {
    std::vector<Slot>& order = schedule.order.emplace_back();
    order.reserve(size_t{3} * total);
    auto add = [&](SlotKind kind, int j) {
      const auto& [chunk, m] = table[j];
      const int mine = kind == SlotKind::kForward ? chunk : v - 1 - chunk;
      order.push_back({.kind = kind, .stage = mine * p + rank, .microbatch = m});
    };
    const int warmup = static_cast<int>(std::min<int64_t>(int64_t{v - 1} * group + p - 1 - rank, total));
    for (int j = 0; j < warmup; ++j) add(SlotKind::kForward, j);
    for (int j = 0; j < total; ++j) {
      if (warmup + j < total) add(SlotKind::kForward, warmup + j);
      add(SlotKind::kBackwardInput, j);
      if (j >= rank) add(SlotKind::kBackwardWeight, j - rank);
    }
    for (int j = std::max(total - rank, 0); j < total; ++j) add(SlotKind::kBackwardWeight, j);
  }
  return schedule;
}

// The head of this file gives the source and the conditions.
std::optional<ClosedForm> ClosedFormInterleavedZb(const ScheduleParams& params) {
  const int64_t p = params.ranks, n = params.microbatches, v = StagesPerRank(params), group = Group(params);
  const __int128 f = params.costs.forward, w = params.costs.weight, i = params.costs.backward - params.costs.weight;
  ClosedForm form;
  if (n >= p && LastGroupIsFull(group, n, p)) {
    form.makespan = RatioIfItFits(v * n * (f + i + w) + (p - 1) * (f + i - std::min({f, i, w})), v);
    if (w <= std::min(f, i)) form.span = form.makespan;
  }
  form.peak_activations.assign(p, {std::min((v - 1) * group + p, v * n), v});
  return form;
}

}  // namespace weft
