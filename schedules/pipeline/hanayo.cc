// Hanayo: one pipeline that runs W waves, down the ranks and back up. More waves have smaller stages, and the bubbles
// shrink with the stages.
//
//   P=4, W=2, N=4, F=1, B=2; a slot is a quarter of a rank's work   (letters: microbatch; upper case: backward)
//     rank 0: abcd...aabbccddaAAbBBcCCdDD...AAAABBBBCCCCDDDDAA..BB..CC..DD
//     rank 1: .abc..adbacbdcadb.AAcBBdCC..AADDBBAACCBBDDCCAADDBB..CC..DD..
//     rank 2: ..ab.acbdcadbacbdc..AAdBB.AACCBBDDCCAADDBBAACCBBDDCC..DD....
//     rank 3: ...aabbccddaabbccdd...AAAABBBBCCCCDDDDAAAABBBBCCCCDDDD......
//
// The paper draws N = P and gives no rule. Our rule comes from Hanayo's origin, Chimera: the slots of wave_table.h, in
// units of P microbatches. For other N, costs and limits, other orders are tried too: list schedules under nine rules
// (list_scheduling.h), and with limit >= 2P the table in units of 2P microbatches, two per forward slot. The order that
// is fastest with the given costs wins; among equals, the one that was tried first. The longer the lists, the fewer
// rules are tried. Backwards of a stage are in ascending microbatch order (rule P9).
//
// Constraints: any P >= 1, N >= 1; W >= 1 waves (default 1); S = 2WP stages; limit, microbatches in flight (default P).
// Time:    equal stages, free transfers, B >= F, N = KP, limit = P:
//          makespan = P F + (P + (P-1)/W) B + (K-1) ((P - (P-1)/W) F + (P + (P-1)/W) B).
//          B = 2F: bubble (K+1)(P-1) F/W, at N = P (2P-2) F/W: the bubble of the paper's Eq. 1, whose ratio
//          (2P-2)/(3PW+P-1) is above the measured (2P-2)/(3PW+2P-2) because its total time counts half of the bubble.
//          With transfers, Eq. 1 counts too few of them on the critical path where W > 1 (hanayo_test.cc).
//          With N = P and B = 2F no order is faster: exhaustive search for P = 4, W = 1, 2, 4 (hanayo_exact_test.cc).
//          limit >= 2P, N a multiple of 2P: (N + (P-1)/2W)(F + B), the least possible for any order: the last rank
//          waits for P-1 forwards, and after its last backward P-1 others follow. P=4, W=1, N=8: 28.5 with at least 6
//          in flight. With 4, the default, it takes 33, and no order takes less (same test).
// Memory:  rank r: P - (P-1-r)/2W microbatches' activations; limit >= 2P: P more. Weights once.
// Source:  Liu et al. 2023, "Hanayo: Harnessing Wave-like Pipeline Parallelism for Enhanced Large Model Training
//          Efficiency", SC 2023, doi:10.1145/3581784.3607073, sec. 3.3 and 3.4.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/list_scheduling.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/wave_table.h"

namespace weft {
namespace {

// Total number of slots that list scheduling may place. The longer the lists, the fewer rules are tried.
constexpr int64_t kTriedSlots = int64_t{1} << 20;

int Waves(const ScheduleParams& params) { return params.waves == 0 ? 1 : params.waves; }
int64_t Limit(const ScheduleParams& params) { return params.limit == 0 ? params.ranks : params.limit; }

std::vector<std::vector<Slot>> TableOrder(const std::vector<int>& lane, const ScheduleParams& params, WaveUnit unit) {
  const int per_lane = static_cast<int>(std::min<int64_t>(params.ranks, Limit(params)));
  return WaveOrder({.ranks = params.ranks, .placement = {lane}, .per_lane = per_lane, .unit = unit},
                   params.microbatches);
}

// The first rule gives the order of the table. Each of the next six rules was the best for at least some (P, W, N,
// limit) of a sweep. The last two rules simply prefer forwards and backwards.
std::vector<ListRule> Rules(int64_t s, int64_t microbatches) {
  return {
      {.per_microbatch = 2, .per_forward_stage = 1, .backward = s, .per_backward_stage = 1},
      {.per_microbatch = 3, .per_forward_stage = 1, .backward = 3 * s / 2, .per_backward_stage = 1},
      {.per_microbatch = 2, .per_forward_stage = 1, .backward = -s},
      {.per_microbatch = 3, .per_forward_stage = 1, .backward = s, .per_backward_stage = 2},
      {.per_microbatch = 3, .per_forward_stage = 1, .per_backward_stage = 2},
      {.per_microbatch = 3, .per_forward_stage = 2, .backward = 3 * s / 2, .per_backward_stage = 2},
      {.per_microbatch = 1, .per_forward_stage = 1, .backward = s, .per_backward_stage = 1},
      {.per_microbatch = 1, .backward = microbatches},
      {.per_microbatch = 1, .forward = microbatches},
  };
}

std::vector<std::vector<Slot>> BestOrder(const std::vector<int>& lane, const ScheduleParams& params) {
  const int64_t stages = static_cast<int64_t>(lane.size()), n = params.microbatches;
  const int limit = static_cast<int>(std::min(Limit(params), n));
  // A slot is 1/v of a rank's work, so in units of a slot transfers take v times as long.
  const int64_t v = stages / params.ranks;
  const ListCosts costs = {
      .forward = params.costs.forward, .backward = params.costs.backward, .p2p = params.costs.p2p * v};
  const __int128 sum = (__int128{costs.forward} + costs.backward + 2 * __int128{costs.p2p}) * stages * n;
  const bool measurable = sum <= int64_t{1} << 62;

  const WaveUnit unit = Limit(params) >= int64_t{2} * params.ranks ? WaveUnit::kPairs : WaveUnit::kSingle;
  const std::vector<ListRule> rules = Rules(stages, n);
  size_t tries = static_cast<size_t>(std::min<int64_t>(rules.size(), kTriedSlots / (2 * stages * n)));
  // The table cannot use a limit between P and 2P, so at least one rule is tried.
  if (Limit(params) > params.ranks && unit == WaveUnit::kSingle) tries = std::max<size_t>(tries, 1);
  ListedOrder best = {.order = TableOrder(lane, params, unit), .makespan = 0};
  if (!measurable || tries == 0) return std::move(best.order);
  best.makespan = MakespanInOrder(lane, best.order, params.microbatches, costs);
  auto consider = [&](ListedOrder other) {
    if (other.makespan < best.makespan) best = std::move(other);
  };
  if (unit == WaveUnit::kPairs) {
    std::vector<std::vector<Slot>> order = TableOrder(lane, params, WaveUnit::kSingle);
    const int64_t makespan = MakespanInOrder(lane, order, params.microbatches, costs);
    consider({.order = std::move(order), .makespan = makespan});
  }
  for (size_t i = 0; i < tries; ++i) {
    consider(ScheduleByRule(lane, params.ranks, params.microbatches, limit, costs, rules[i]));
  }
  return std::move(best.order);
}

}  // namespace

absl::StatusOr<PipelineSchedule> BuildHanayo(const ScheduleParams& params) {
  // CheckParams counts at least the two stages per rank of one wave; it reads a larger params.waves itself.
  if (absl::Status status = CheckParams(params, 2); !status.ok()) return status;
  const int stages = 2 * Waves(params) * params.ranks;
  PipelineSchedule schedule = {
      .stages = stages, .lanes = 1, .placement = SnakePlacement(params.ranks, stages), .order = {}};
  schedule.order = BestOrder(schedule.placement[0], params);
  return schedule;
}

// With limit = P, B = 2F and N = P the bubble is the paper's in sec. 3.4 (Eq. 1 without transfers). For other K = N/P,
// costs and limits the forms are ours, and tests compare them with measured times.
std::optional<ClosedForm> ClosedFormHanayo(const ScheduleParams& params) {
  const int64_t p = params.ranks, n = params.microbatches, w = Waves(params), forward = params.costs.forward,
                backward = params.costs.backward;
  const bool pairs = Limit(params) >= 2 * p;
  if (params.costs.p2p != 0 || n % (pairs ? 2 * p : p) != 0) return std::nullopt;
  __int128 makespan = 0;
  if (pairs) {
    if (backward != 2 * forward) return std::nullopt;
    makespan = __int128{2 * w * n + p - 1} * (forward + backward);
  } else {
    if (Limit(params) != p) return std::nullopt;
    const __int128 shorter = std::min(forward, backward), longer = std::max(forward, backward);
    const __int128 first = 2 * w * p * shorter + 2 * (w * p + p - 1) * longer;
    const __int128 further = 2 * (w * p - p + 1) * shorter + 2 * (w * p + p - 1) * longer;
    makespan = first + (n / p - 1) * further;
  }
  if (makespan > INT64_MAX) return std::nullopt;
  ClosedForm form = {.makespan = Ratio{static_cast<int64_t>(makespan), 2 * w}};
  for (int64_t rank = 0; rank < p; ++rank) {
    form.peak_activations.push_back({(2 * w - 1) * p + 1 + rank + (pairs ? 2 * w * p : 0), 2 * w});
  }
  return form;
}

}  // namespace weft
