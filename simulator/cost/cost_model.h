// Costs of single steps of a segment on a device. A cost model is one file and one line in registry.def.
#ifndef WEFT_SIMULATOR_COST_COST_MODEL_H_
#define WEFT_SIMULATOR_COST_COST_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "proto/util/units.h"
#include "simulator/cost/step_shapes.h"

namespace weft::sim {

// Inputs of cost models besides the cluster.
struct CostOptions {
  // For "unit": costs of a forward, of a whole backward, of the weight half of a backward, and of a forward and a
  // backward that run as one (0 = their sum).
  Time unit_forward = {1'000'000};
  Time unit_backward = {2'000'000};
  Time unit_weight = {1'000'000};
  Time unit_pair = {0};
  // Number of collectives that the device takes part in while the step runs: 0, 1 or 2 (rule P3: load). A cost must not
  // fall as this number grows, and must be 0 either for every number or for none. "unit" ignores the number.
  int collectives = 0;
};

// Returns the duration of `step` on a device of `cluster`. The step is not a collective and computes products of
// `shapes`. `index` is the step's position in the segment of an action of `kind`, relative to the first step on the
// compute stream (negative = before it). FailedPrecondition, naming the step and the field, if the cluster lacks a
// figure that the step needs (say, a peak for its dtype).
using StepCostFn = absl::StatusOr<Time>(const Step& step, const StepShapes& shapes, ActionKind kind, int index,
                                        const Cluster& cluster, const CostOptions& options);

// The inputs from which a cost model computes durations.
enum class CostBasis {
  // The figures of the device that runs the step.
  kDevice,
  // Only the kind of the action. The model is for schedules without a machine, which have no kernels and no
  // utilization.
  kSchedule,
};

struct CostModelEntry {
  absl::string_view name;
  StepCostFn* cost;
  CostBasis basis;
  absl::string_view description;
};

// Returns all known cost models, sorted by name.
absl::Span<const CostModelEntry> CostModels();

// Returns the model that is most accurate on this cluster: "tiles" if all kinds of its devices have the figures for it,
// else "roofline".
std::string BestCostModel(const Cluster& cluster);

// Finds a model by name. NotFound lists the known names and the nearest.
absl::StatusOr<const CostModelEntry*> FindCostModel(absl::string_view name);

// Returns the names of the cost models that use the figures of devices (CostBasis::kDevice), sorted.
std::vector<std::string> DeviceCostModels();

// True if the named cost model uses the figures of devices, and for names that no cost model has.
bool KnowsDevice(absl::string_view name);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_COST_COST_MODEL_H_
