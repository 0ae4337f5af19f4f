// The "unit" cost model: a forward takes 1 us, a backward 2 us, the weight half of a backward 1 us, or what the options
// state, for every model and every machine. Programs costed this way show the properties of their schedule alone.
//
// The first step of the segment on the compute stream has the whole cost. The other steps, and all other actions, are
// free.
#include <algorithm>

#include "simulator/cost/cost_model.h"

namespace weft::sim {

absl::StatusOr<Time> UnitCost(const Step& step, const StepShapes& shapes, ActionKind kind, int index,
                              const Cluster& cluster, const CostOptions& options) {
  if (index != 0) return Time{};
  switch (kind) {
    case FORWARD:
      return options.unit_forward;
    case BACKWARD:
      return options.unit_backward;
    case BACKWARD_INPUT:
      return Time{std::max<int64_t>(0, options.unit_backward.ps - options.unit_weight.ps)};
    case BACKWARD_WEIGHT:
      return options.unit_weight;
    case FORWARD_BACKWARD:
      return options.unit_pair.ps > 0 ? options.unit_pair : options.unit_forward + options.unit_backward;
    default:
      return Time{};
  }
}

}  // namespace weft::sim
