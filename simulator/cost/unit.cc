// The "unit" cost model: a forward takes 1 us, a backward 2 us, or what the options say, whatever the model and the
// machine. A program costed so has the numbers of its schedule alone.
//
// The whole cost lies on the first step of the segment; the other steps, and all other actions, are free.
#include "simulator/cost/cost_model.h"

namespace weft {

absl::StatusOr<Time> UnitCost(const Step& step, ActionKind kind, int index, const Cluster& cluster,
                              const CostOptions& options) {
  if (index != 0) return Time{};
  if (kind == FORWARD) return options.unit_forward;
  if (kind == BACKWARD) return options.unit_backward;
  return Time{};
}

}  // namespace weft
