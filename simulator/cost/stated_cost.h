// Durations that need no model: copies between host and device, and kernels whose rates the cluster states.
#ifndef WEFT_SIMULATOR_COST_STATED_COST_H_
#define WEFT_SIMULATOR_COST_STATED_COST_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "proto/util/units.h"
#include "simulator/cost/step_shapes.h"

namespace weft::sim {

// Returns the stated duration, or nothing if a model must give it:
//   d2h, h2d:        host.overhead + bytes / host.bytes_per_second + host.latency
//   with a rate of device.kernel_rates for the step (measured_rate.h):
//                    overhead + max(flops / flops_per_second, bytes / bytes_per_second), a zero rate = no term;
//                    both rates are reduced to what `collectives` leave (device_load.h)
// Among rows by work, the last one whose lower edge is at most the step's work applies. Below the first edge the first
// row applies: the rate of the smallest measured size is nearer to the truth than the full peak.
absl::StatusOr<std::optional<Time>> StatedCost(const Step& step, const StepShapes& shapes, const Cluster& cluster,
                                               int collectives);

// Returns the dense peak of the step's dtype. FailedPrecondition if the device has none.
absl::StatusOr<double> PeakOf(const Step& step, const Device& device);

// Returns FailedPrecondition naming `field`, which must be positive to cost the step.
absl::Status MissingFigure(const Step& step, absl::string_view field, absl::string_view why);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_COST_STATED_COST_H_
