// What a step costs as a framework computes it: kernels that it does not fuse, and the time of its host.
//
//   kernels   of a form {launches l, bytes b, time t}:
//             t x cost of the step with b times its bytes + (l - 1) x device.launch_seconds
//   host      a segment of steps that together take D of the device and L launches of the host takes at least
//             L x launch_seconds: each of its steps max(cost, cost x L x launch_seconds / D). The host runs ahead, so a
//             single short kernel between long ones costs nothing.
//   waits     microbatch_seconds before the first step of each forward and backward, step_seconds of an optimizer step
#ifndef WEFT_SIMULATOR_RUNTIME_RUNTIME_STEPS_H_
#define WEFT_SIMULATOR_RUNTIME_RUNTIME_STEPS_H_

#include <map>
#include <tuple>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "proto/runtime.pb.h"
#include "proto/units.h"
#include "simulator/cost/cost_model.h"

namespace weft {

class RuntimeSteps {
 public:
  // All three must outlive this.
  RuntimeSteps(const Program& program, const Runtime& runtime, StepCostFn* cost)
      : program_(program), runtime_(runtime), cost_(cost) {}

  // Collectives under way make computation on such a device longer. Those that go through host memory take nothing of
  // it.
  bool LoadMatters(const Device& device) const;

  // Of step `step` of segment `segment` as StepCostFn says, the index-th on the compute stream.
  absl::StatusOr<Time> Cost(int segment, int step, ActionKind kind, int index, const Cluster& cluster,
                            const CostOptions& options);

 private:
  absl::StatusOr<Time> OnDevice(int segment, int step, ActionKind kind, int index, const Cluster& cluster,
                                const CostOptions& options) const;
  // Host time of the segment over device time, at least 1.
  absl::StatusOr<double> HostShare(int segment, ActionKind kind, const Cluster& cluster, const CostOptions& options);

  const Program& program_;
  const Runtime& runtime_;
  StepCostFn* cost_;
  // By segment, kind and the cluster that its device is of.
  std::map<std::tuple<int, ActionKind, const Cluster*>, double> host_shares_;
};

}  // namespace weft

#endif  // WEFT_SIMULATOR_RUNTIME_RUNTIME_STEPS_H_
