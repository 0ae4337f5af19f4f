// The "roofline" cost model.
//
//   launch + max(flops / (peak(dtype) * matmul_efficiency(flops)),
//                bytes / (memory_bytes_per_second * memory_efficiency(bytes)))
//
// Peak and bandwidth are the parts that collectives leave (device_load.h). If the cluster states the duration, the
// model returns that (stated_cost.h). In a table of efficiencies, the last row whose lower edge is at most the step's
// work applies; below the first edge, the first row. Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4),
// 2009.
#include <algorithm>

#include "proto/util/status.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/device_load.h"
#include "simulator/cost/stated_cost.h"

namespace weft::sim {
namespace {

double Fraction(const google::protobuf::RepeatedPtrField<Efficiency>& rows, double work) {
  if (rows.empty()) return 1;
  double fraction = rows[0].fraction();
  for (const Efficiency& row : rows) {
    if (row.from() <= work) fraction = row.fraction();
  }
  return fraction;
}

}  // namespace

absl::StatusOr<Time> RooflineCost(const Step& step, const StepShapes& shapes, ActionKind kind, int index,
                                  const Cluster& cluster, const CostOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const std::optional<Time> stated, StatedCost(step, shapes, cluster, options.collectives));
  if (stated) return *stated;
  const Device& device = cluster.device();
  const RemainingDevice left = RemainingBeside(device, options.collectives);
  const double flops = step.work().flops();
  const double bytes = step.work().bytes();
  double compute = 0;
  if (flops > 0) {
    WEFT_ASSIGN_OR_RETURN(const double peak, PeakOf(step, device));
    compute = flops / (peak * left.compute * Fraction(device.matmul_efficiency(), flops));
  }
  double memory = 0;
  if (bytes > 0) {
    const double rate = device.memory_bytes_per_second() * left.memory * Fraction(device.memory_efficiency(), bytes);
    if (!(rate > 0)) return MissingFigure(step, "device.memory_bytes_per_second", "the step moves bytes");
    memory = bytes / rate;
  }
  return FromSeconds(device.launch_seconds() + std::max(compute, memory));
}

}  // namespace weft::sim
