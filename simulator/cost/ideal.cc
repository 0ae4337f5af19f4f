// The "ideal" cost model: the device as its data sheet states it.
//
//   max(flops / peak(dtype), bytes / memory_bytes_per_second)
//
// The model ignores launches, efficiencies, and the part of the device that collectives take. So no kernel within the
// stated figures is faster. The difference from another model's time is the most that better kernels could gain. Copies
// between host and device take the time of the link (stated_cost.h). Source: Williams, Waterman, Patterson, "Roofline",
// CACM 52(4), 2009.
#include <algorithm>

#include "proto/util/status.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/stated_cost.h"

namespace weft::sim {

absl::StatusOr<Time> IdealCost(const Step& step, const StepShapes& shapes, ActionKind kind, int index,
                               const Cluster& cluster, const CostOptions& options) {
  if (step.stream() != COMPUTE) {
    WEFT_ASSIGN_OR_RETURN(const std::optional<Time> stated, StatedCost(step, shapes, cluster, /*collectives=*/0));
    return *stated;
  }
  const Device& device = cluster.device();
  double compute = 0, memory = 0;
  if (step.work().flops() > 0) {
    WEFT_ASSIGN_OR_RETURN(const double peak, PeakOf(step, device));
    compute = step.work().flops() / peak;
  }
  if (step.work().bytes() > 0) {
    if (!(device.memory_bytes_per_second() > 0)) {
      return MissingFigure(step, "device.memory_bytes_per_second", "the step moves bytes");
    }
    memory = step.work().bytes() / device.memory_bytes_per_second();
  }
  return FromSeconds(std::max(compute, memory));
}

}  // namespace weft::sim
