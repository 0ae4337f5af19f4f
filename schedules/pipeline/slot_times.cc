#include "schedules/pipeline/slot_times.h"

#include <numeric>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "schedules/pipeline/params.h"

namespace weft {

absl::StatusOr<UnitCosts> MakeUnitCosts(const PipelineSchedule& schedule, int microbatches,
                                        std::vector<StageCosts> costs, int64_t p2p) {
  if (static_cast<int>(costs.size()) != schedule.stages) {
    return absl::InvalidArgumentError(
        absl::StrCat("costs of ", costs.size(), " stages are given; the schedule has ", schedule.stages));
  }
  __int128 longest = 0;
  for (const StageCosts& stage : costs) {
    for (const int64_t cost : {stage.forward, stage.backward, stage.backward_input, stage.backward_weight, p2p}) {
      if (cost < 0) return absl::InvalidArgumentError(absl::StrCat("a cost is ", cost, "; allowed: 0 or more"));
      longest += __int128{cost} * microbatches;
    }
    longest += __int128{p2p} * 2 * microbatches;
  }
  if (longest > int64_t{1} << 61) {
    return absl::InvalidArgumentError(
        absl::StrCat("the costs of stages are too large for ", microbatches, " microbatches"));
  }
  UnitCosts unit{.p2p = p2p, .longest = static_cast<int64_t>(longest)};
  unit.stages = std::move(costs);
  return unit;
}

absl::StatusOr<UnitCosts> MakeUnitCosts(const PipelineSchedule& schedule, int microbatches, const SlotCosts& costs) {
  for (const auto& [name, cost, most] :
       {std::tuple<const char*, int64_t, int64_t>{"forward", costs.forward, kMaxSlotCost},
        {"backward", costs.backward, kMaxSlotCost},
        {"weight", costs.weight, costs.backward},
        {"pair", costs.pair, 2 * kMaxSlotCost},
        {"p2p", costs.p2p, kMaxSlotCost}}) {
    if (cost < 0 || cost > most) {
      return absl::InvalidArgumentError(absl::StrCat(name, " = ", cost, "; allowed: 0 to ", most));
    }
  }
  // A slot has ranks / stages of a rank's work on one microbatch. The unit makes its cost an integer.
  const int64_t ranks = static_cast<int64_t>(schedule.order.size());
  const int64_t divisor = std::gcd(ranks, int64_t{schedule.stages});
  const int64_t share = ranks / divisor;
  UnitCosts scaled = {.unit = schedule.stages / divisor, .activations = share};
  const int64_t pair = costs.pair > 0 ? costs.pair : costs.forward + costs.backward;
  // No chain of slots is longer than all slots together.
  const __int128 longest_step =
      __int128{std::max({costs.forward, costs.backward, pair})} * share + __int128{costs.p2p} * scaled.unit;
  const __int128 longest = longest_step * 3 * schedule.stages * microbatches;
  if (longest > int64_t{1} << 62) {
    return absl::InvalidArgumentError(absl::StrCat(
        "costs forward = ", costs.forward, ", backward = ", costs.backward, ", pair = ", pair, ", p2p = ", costs.p2p,
        " are too large for ", ranks, " ranks and ", schedule.stages, " stages with ", microbatches, " microbatches"));
  }
  scaled.longest = static_cast<int64_t>(longest);
  scaled.forward = costs.forward * share;
  scaled.backward = costs.backward * share;
  scaled.weight = costs.weight * share;
  scaled.pair = pair * share;
  scaled.p2p = costs.p2p * scaled.unit;
  return scaled;
}

}  // namespace weft
