// Interleaved 1F1B: several stages per rank, placed in a loop, so that the pipeline fills in v times smaller steps.
//
//   P=2, v=2, N=2, F=2, B=4: 1 per forward slot, 2 per backward   (digits: stage, microbatch; lower case: forward)
//     rank 0: f00 f01 f20 f21 ... ... B20 B20 ... B21 B21 B00 B00 B01 B01
//     rank 1: ... f10 f11 f30 B30 B30 f31 B31 B31 B10 B10 B11 B11 ... ...
//
// Rank r holds stages r, P + r, 2P + r, ... It runs its N v forwards in groups of G microbatches, each group through
// all its stages in turn. It runs the backwards in the same way, with stages from the last down. It first runs w =
// min(2(P - r - 1) + (v - 1)G, N v) forwards, then alternates forward and backward, then runs the rest of the
// backwards. Each stage's backwards are in ascending microbatch order (rule P9).
//
// Constraints: any P >= 1, v >= 2 (default 2). G is from P to N such that the last group, of N mod G, is empty or
//          has at least P microbatches (Megatron's rule). group = 0 selects the smallest such G. That is P if P divides
//          N (the classic schedule), and PyTorch's N / max(1, floor(N / P)) wherever PyTorch's is an integer. If N < P,
//          G = N.
// Time:    equal stages, free transfers, N >= P: makespan = (N + (P - 1) / v)(F + B), for every valid G. The drawing:
//          2.5 * 6 = 15. N < P takes more: P=4, N=3, v=2, F=1, B=2 takes 15, a bubble of 6 instead of 4.5. Edge latency
//          counts v times as often as in 1F1B.
// Memory:  rank r holds min(w + 1, N v) / v microbatches; a larger G needs more. The drawing: 2 and 3/2.
// Source:  Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM",
//          arXiv:2104.04473, sec. 2.2; groups as in Megatron-LM and PyTorch.
#include "schedules/pipeline/interleaved.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"

namespace weft {
namespace {

constexpr int kDefaultVirtualStages = 2;

bool GroupIsValid(int group, int ranks, int microbatches) {
  if (microbatches < ranks) return group == microbatches;
  const int rest = group > 0 ? microbatches % group : 0;
  return ranks <= group && group <= microbatches && (rest == 0 || rest >= ranks);
}

// Number of forwards that the rank runs before its first backward.
int64_t WarmUp(const ScheduleParams& params, int virtual_stages, int group, int rank) {
  return std::min(int64_t{2} * (params.ranks - rank - 1) + int64_t{virtual_stages - 1} * group,
                  int64_t{params.microbatches} * virtual_stages);
}

ScheduleParams WithDefaults(ScheduleParams params) {
  if (params.virtual_stages == 0) params.virtual_stages = kDefaultVirtualStages;
  return params;
}

}  // namespace

absl::StatusOr<int> InterleavedGroup(const ScheduleParams& params) {
  const int p = params.ranks, n = params.microbatches;
  if (params.group != 0 && GroupIsValid(params.group, p, n)) return params.group;
  // N itself is valid, so this finds a group.
  int nearest = n;
  for (int group = std::min(p, n); group <= n; ++group) {
    if (!GroupIsValid(group, p, n)) continue;
    if (params.group == 0) return group;
    if (std::abs(int64_t{group} - params.group) < std::abs(int64_t{nearest} - params.group)) nearest = group;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("group = ", params.group, " for ", p, " ranks and ", n, " microbatches; allowed: ",
                   n < p ? absl::StrCat(n) : absl::StrCat(p, " to ", n, " if N modulo group is 0 or at least ", p),
                   ", nearest valid: ", nearest));
}

std::vector<VirtualStep> VirtualSteps(int microbatches, int virtual_stages, int group) {
  std::vector<VirtualStep> steps;
  steps.reserve(static_cast<int64_t>(microbatches) * virtual_stages);
  for (int64_t first = 0; first < microbatches; first += group) {
    const int end = static_cast<int>(std::min<int64_t>(first + group, microbatches));
    for (int chunk = 0; chunk < virtual_stages; ++chunk) {
      for (int m = static_cast<int>(first); m < end; ++m) steps.push_back({m, chunk});
    }
  }
  return steps;
}

absl::StatusOr<PipelineSchedule> BuildInterleaved(const ScheduleParams& given) {
  const ScheduleParams params = WithDefaults(given);
  if (absl::Status status = CheckParams(params); !status.ok()) return status;
  const int p = params.ranks, v = params.virtual_stages;
  if (v < 2) return absl::InvalidArgumentError("virtual_stages = 1; allowed: at least 2, nearest valid: 2");
  const absl::StatusOr<int> group = InterleavedGroup(params);
  if (!group.ok()) return group.status();
  const std::vector<VirtualStep> steps = VirtualSteps(params.microbatches, v, *group);
  const int64_t count = static_cast<int64_t>(steps.size());
  PipelineSchedule schedule = {.stages = v * p, .placement = LoopedPlacement(p, v * p)};
  for (int rank = 0; rank < p; ++rank) {
    std::vector<Slot>& order = schedule.order.emplace_back();
    order.reserve(2 * count);
    auto forward = [&](const VirtualStep& step) {
      order.push_back({.kind = SlotKind::kForward, .stage = step.chunk * p + rank, .microbatch = step.microbatch});
    };
    const int64_t warmup = WarmUp(params, v, *group, rank);
    for (int64_t i = 0; i < warmup; ++i) forward(steps[i]);
    for (int64_t i = 0; i < count; ++i) {
      if (warmup + i < count) forward(steps[warmup + i]);
      order.push_back({.kind = SlotKind::kBackward,
                       .stage = (v - 1 - steps[i].chunk) * p + rank,
                       .microbatch = steps[i].microbatch});
    }
  }
  return schedule;
}

// Narayanan et al. 2021, arXiv:2104.04473, sec. 2.2: with v model chunks the bubble is (p-1)(t_f + t_b) / v. The
// activations follow from the warm-up: after it, a backward follows each forward.
std::optional<ClosedForm> ClosedFormInterleaved(const ScheduleParams& given) {
  const ScheduleParams params = WithDefaults(given);
  const absl::StatusOr<int> group = InterleavedGroup(params);
  if (!group.ok()) return std::nullopt;
  const int64_t p = params.ranks, n = params.microbatches, v = params.virtual_stages;
  ClosedForm form;
  if (n >= p) form.makespan = Ratio{(n * v + p - 1) * (params.costs.forward + params.costs.backward), v};
  for (int rank = 0; rank < params.ranks; ++rank) {
    const int64_t warmup = WarmUp(params, params.virtual_stages, *group, rank);
    form.peak_activations.push_back({std::min(warmup + 1, n * v), v});
  }
  return form;
}

}  // namespace weft
