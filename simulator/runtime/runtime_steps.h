// What a step costs as a framework computes it: kernels that it does not fuse, and the time of its host.
//
//   kernels   of a form {launches l, bytes b, time t}:
//             t x cost of the step with b times its bytes + (l - 1) x device.launch_seconds
//   factors   of a product with factor_bytes f: + cost of casts of f x elements bytes, one for each of its factors;
//             where gathers have a form (cast_gathers.h), of a part of what was gathered; weights that are kept
//             (weight_casts.h) are cast by steps of their own;
//             those that make logits or read their gradient have their loss_time instead, and no casts
//   launches  steps of one launch (proto/util/step_runs.h) cost what the largest of them would with the work of all, at
//   the
//             turn of the first of them and of all that take turns with them
//   host      a segment of steps that together take D of the device and L launches of the host takes at least
//             L x launch_seconds: each of its steps max(cost, cost x L x launch_seconds / D). The host runs ahead, so a
//             single short kernel between long ones costs nothing.
//   waits     microbatch_seconds before the first step of each forward and backward, step_seconds of an optimizer step
//   copies    with host_transport: of what a forward or backward receives and sends, bytes / host link: the threads
//             that copy to and from the host do so on the stream of the computation
#ifndef WEFT_SIMULATOR_RUNTIME_RUNTIME_STEPS_H_
#define WEFT_SIMULATOR_RUNTIME_RUNTIME_STEPS_H_

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "proto/runtime.pb.h"
#include "proto/util/step_runs.h"
#include "proto/util/units.h"
#include "simulator/cost/cost_model.h"
#include "simulator/runtime/cast_gathers.h"
#include "simulator/runtime/host_transport.h"
#include "simulator/runtime/loss_products.h"
#include "simulator/runtime/weight_casts.h"

namespace weft::sim {

class RuntimeSteps {
 public:
  // All three must outlive this.
  RuntimeSteps(const Program& program, const Runtime& runtime, StepCostFn* cost)
      : program_(program), runtime_(runtime), cost_(cost) {
    if (runtime.has_host_transport()) message_bytes_ = MessageBytesOfSegments(program);
    for (const KernelForm& form : runtime.kernels()) {
      if (form.loss_time() > 0 && loss_products_.empty()) loss_products_ = LossProducts(program);
      if (form.weights_cast_once() && kept_weights_.empty()) kept_weights_ = KeptWeightFactors(program, true);
      const bool gathers = form.kernel() == Kernel_Name(GROUP_ALL_GATHER);
      if (gathers && gathered_factors_.empty()) gathered_factors_ = GatheredFactors(program);
    }
  }

  // Collectives under way make computation on such a device longer. Those that go through host memory take nothing of
  // it.
  bool LoadMatters(const Device& device) const;

  // Steps are joined to launches on such a device.
  bool Joins(const Device& device) const;

  // A step of a segment as an action of `kind` runs it, the index-th on the compute stream.
  struct Use {
    int segment = 0;
    int step = 0;
    ActionKind kind = ACTION_UNSPECIFIED;
    int index = 0;
    // The action's, where steps are joined; else null. Outlives this.
    const std::vector<StepRange>* ranges = nullptr;
  };

  // As StepCostFn says; of joined steps the first costs what all of them do. Refuses where copies are needed and the
  // cluster has no host link.
  absl::StatusOr<Time> Cost(const Use& use, const Cluster& cluster, const CostOptions& options);

 private:
  absl::StatusOr<Time> OnDevice(const Use& use, const Cluster& cluster, const CostOptions& options) const;
  // Of a launch by itself.
  absl::StatusOr<Time> OfLaunch(const Segment& of, const Step& step, const Use& use, const Cluster& cluster,
                                const CostOptions& options) const;
  // The same but for casts of weights, which not all devices make.
  absl::StatusOr<Time> OfKernel(const Segment& of, const Step& step, const Use& use, const Cluster& cluster,
                                const CostOptions& options) const;
  // Of a weight's cast (weight_casts.h), on the rank's own device: null if none is made there.
  const KernelForm* CastForm(const Device& device) const;
  bool IsOfLoss(const KernelForm& form, const Use& use) const;
  // That factor (0 or 1) of the product is cast for it.
  bool IsCast(const KernelForm& form, const Use& use, int input) const;
  // Of the step with its casts; null is one launch.
  int Launches(const KernelForm* form, const Use& use) const;
  // What brings the factors of a product into another type.
  absl::StatusOr<Time> CastsOf(const StepShapes& product, const KernelForm& form, const Step& step, const Use& use,
                               const Cluster& cluster, const CostOptions& options) const;
  // That gather activations: those of the tensor axis.
  int64_t LayerRanks() const;
  // Of messages from and to the host.
  absl::StatusOr<double> CopySeconds(int segment, const Cluster& cluster) const;
  // Host time of the segment over device time, at least 1.
  absl::StatusOr<double> HostShare(const Use& use, const Cluster& cluster, const CostOptions& options);

  const Program& program_;
  const Runtime& runtime_;
  StepCostFn* cost_;
  std::map<int32_t, int64_t> message_bytes_;
  std::set<std::pair<int, int>> loss_products_;
  std::set<std::tuple<int, int, int>> gathered_factors_;
  std::set<std::tuple<int, int, int>> kept_weights_;
  // By segment, kind, joined steps and the cluster that its device is of.
  std::map<std::tuple<int, ActionKind, const std::vector<StepRange>*, const Cluster*>, double> host_shares_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_RUNTIME_STEPS_H_
