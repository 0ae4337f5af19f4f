// The cost of a step as a framework computes it, with the kernels that it does not fuse and the time of its host.
//
//   kernels   with a form {launches l, bytes b, time t}:
//             t x cost of the step with b times its bytes + (l - 1) x device.launch_seconds
//   factors   of a product with factor_bytes f: + cost of casts of f x elements bytes, one for each of its factors.
//             Where gathers have a form (cast_gathers.h), a rank casts only its part of a gathered factor. Weights that
//             are kept (weight_casts.h) are cast by separate steps. Products that make logits or read their gradient
//             have loss_time instead, and no casts.
//   launches  the steps of one launch (proto/util/step_runs.h) cost what the largest of them would cost with the work
//             of all. If steps run as one unit (a StepRange), its first step has the cost of all its launches.
//   host      a segment whose steps together take D on the device and L launches of the host takes at least
//             L x launch_seconds: each of its steps takes max(cost, cost x L x launch_seconds / D). The host runs
//             ahead, so a single short kernel between long ones costs nothing.
//   waits     microbatch_seconds before the first step of each forward and backward, step_seconds before the first
//             step of an optimizer step
//   copies    with host_transport: bytes / host link for the messages that a forward or backward receives and sends.
//             The threads that copy to and from the host do so on the compute stream.
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
  // All three arguments must outlive the object.
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

  // True if collectives in flight slow down computation on such a device. Collectives through host memory do not.
  bool LoadMatters(const Device& device) const;

  // True if steps are joined to launches on such a device.
  bool Joins(const Device& device) const;

  // A step of a segment in an action of `kind`. The step is the index-th one on the compute stream.
  struct Use {
    int segment = 0;
    int step = 0;
    ActionKind kind = ACTION_UNSPECIFIED;
    int index = 0;
    // The ranges of the action if its steps are joined, else null. The ranges must outlive the RuntimeSteps object.
    const std::vector<StepRange>* ranges = nullptr;
  };

  // Returns the cost as StepCostFn describes it. The first of joined steps has the cost of all of them. Returns an
  // error if copies are needed and the cluster has no host link.
  absl::StatusOr<Time> Cost(const Use& use, const Cluster& cluster, const CostOptions& options);

 private:
  absl::StatusOr<Time> OnDevice(const Use& use, const Cluster& cluster, const CostOptions& options) const;
  // Returns the cost of one launch. If the launch joins several steps, `step` stands for all of them (AsOneStep).
  absl::StatusOr<Time> LaunchCost(const Segment& of, const Step& step, const Use& use, const Cluster& cluster,
                                  const CostOptions& options) const;
  // Returns the cost of a launch of the step's kernel, with the casts of its factors. LaunchCost also handles weight
  // casts.
  absl::StatusOr<Time> KernelCost(const Segment& of, const Step& step, const Use& use, const Cluster& cluster,
                                  const CostOptions& options) const;
  // Returns the device's form of products if that form casts weights once (weight_casts.h); null = the device makes no
  // such cast.
  const KernelForm* CastForm(const Device& device) const;
  bool IsOfLoss(const KernelForm& form, const Use& use) const;
  // True if factor `input` (0 or 1) of the product is cast each time that the product runs.
  bool IsCast(const KernelForm& form, const Use& use, int input) const;
  // Returns the number of launches of the step with its casts; 1 if `form` is null.
  int Launches(const KernelForm* form, const Use& use) const;
  // Returns the cost of casting the factors of a product to another type.
  absl::StatusOr<Time> CastsOf(const StepShapes& product, const KernelForm& form, const Step& step, const Use& use,
                               const Cluster& cluster, const CostOptions& options) const;
  // Returns the number of ranks that gather activations: the size of the tensor axis.
  int64_t LayerRanks() const;
  // Returns the time of copying messages from and to the host.
  absl::StatusOr<double> CopySeconds(int segment, const Cluster& cluster) const;
  // Returns the ratio of the segment's host time to its device time, at least 1.
  absl::StatusOr<double> HostShare(const Use& use, const Cluster& cluster, const CostOptions& options);

  const Program& program_;
  const Runtime& runtime_;
  StepCostFn* cost_;
  std::map<int32_t, int64_t> message_bytes_;
  std::set<std::pair<int, int>> loss_products_;
  std::set<std::tuple<int, int, int>> gathered_factors_;
  std::set<std::tuple<int, int, int>> kept_weights_;
  // Results of HostShare by segment, kind, joined steps and the cluster that has the device.
  std::map<std::tuple<int, ActionKind, const std::vector<StepRange>*, const Cluster*>, double> host_shares_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_RUNTIME_RUNTIME_STEPS_H_
