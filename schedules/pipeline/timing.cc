#include "schedules/pipeline/timing.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/dependencies.h"
#include "schedules/pipeline/params.h"

namespace weft {
namespace {

absl::Status CheckCosts(const SlotCosts& costs) {
  for (const auto& [name, cost] :
       {std::pair<const char*, int64_t>{"forward", costs.forward}, {"backward", costs.backward}, {"p2p", costs.p2p}}) {
    if (cost < 0 || cost > kMaximumSlotCost) {
      return absl::InvalidArgumentError(absl::StrCat(name, " = ", cost, "; allowed: 0 to ", kMaximumSlotCost));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ScheduleTiming> TimeSchedule(const PipelineSchedule& schedule, int microbatches,
                                            const SlotCosts& costs) {
  if (absl::Status status = CheckCosts(costs); !status.ok()) return status;
  if (absl::Status status = CheckSchedule(schedule, microbatches); !status.ok()) return status;

  // A slot is ranks / stages of a rank's work on a microbatch; counted in units that make it an integer.
  const int64_t ranks = static_cast<int64_t>(schedule.order.size());
  const int64_t divisor = std::gcd(ranks, int64_t{schedule.stages});
  const int64_t slot_share = ranks / divisor;
  ScheduleTiming timing;
  timing.unit = schedule.stages / divisor;
  // No chain of slots is longer than all of them.
  const __int128 longest_step =
      __int128{std::max(costs.forward, costs.backward)} * slot_share + __int128{costs.p2p} * timing.unit;
  if (longest_step * 2 * schedule.stages * microbatches > int64_t{1} << 62) {
    return absl::InvalidArgumentError(absl::StrCat("costs forward = ", costs.forward, ", backward = ", costs.backward,
                                                   ", p2p = ", costs.p2p, " are too large for ", ranks, " ranks and ",
                                                   schedule.stages, " stages with ", microbatches, " microbatches"));
  }
  const int64_t p2p = costs.p2p * timing.unit;

  timing.ranks.resize(ranks);
  timing.start.resize(ranks);
  timing.end.resize(ranks);
  std::vector<int64_t> first_id(ranks);
  for (int64_t rank = 0, id = 0; rank < ranks; ++rank) {
    first_id[rank] = id;
    id += static_cast<int64_t>(schedule.order[rank].size());
    timing.start[rank].resize(schedule.order[rank].size());
    timing.end[rank].resize(schedule.order[rank].size());
  }

  const SlotGraph graph(schedule, microbatches);
  auto end_of = [&](int64_t id) { return timing.end[graph.rank(id)][id - first_id[graph.rank(id)]]; };
  for (int64_t id : OrderSlots(graph).done) {
    const int rank = graph.rank(id);
    int64_t start = 0;
    if (const int64_t previous = graph.Previous(id); previous >= 0) start = end_of(previous);
    const SlotGraph::Inputs inputs = graph.DataInputs(id);
    for (int64_t input : {inputs.forward, inputs.backward}) {
      if (input >= 0) start = std::max(start, end_of(input) + (graph.rank(input) == rank ? 0 : p2p));
    }
    const int64_t cost = graph.slot(id).kind == SlotKind::kForward ? costs.forward : costs.backward;
    timing.start[rank][id - first_id[rank]] = start;
    timing.end[rank][id - first_id[rank]] = start + cost * slot_share;
    timing.ranks[rank].busy += cost * slot_share;
  }

  for (int64_t rank = 0; rank < ranks; ++rank) {
    if (schedule.order[rank].empty()) continue;
    // Time starts at 0, when the first forward of some rank starts.
    timing.makespan = std::max(timing.makespan, timing.end[rank].back());
    timing.span = std::max(timing.span, timing.end[rank].back() - timing.start[rank].front());
    timing.ideal = std::max(timing.ideal, timing.ranks[rank].busy);
    // A rank runs one slot at a time, so what it holds follows from the order alone.
    int64_t held = 0;
    for (const Slot& slot : schedule.order[rank]) {
      held += slot.kind == SlotKind::kForward ? slot_share : -slot_share;
      timing.ranks[rank].peak_activations = std::max(timing.ranks[rank].peak_activations, held);
    }
  }
  for (RankTiming& rank : timing.ranks) rank.idle = timing.makespan - rank.busy;
  return timing;
}

}  // namespace weft
