// What a step costs as a framework computes it: kernels that it does not fuse, and the time of its host.
//
//   kernels   of a form {launches l, bytes b, time t}:
//             t x cost of the step with b times its bytes + (l - 1) x device.launch_seconds
//   launches  steps of one launch (proto/step_runs.h) cost what the largest of them would with the work of all, at the
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
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "proto/runtime.pb.h"
#include "proto/step_runs.h"
#include "proto/units.h"
#include "simulator/cost/cost_model.h"
#include "simulator/runtime/host_transport.h"

namespace weft {

class RuntimeSteps {
 public:
  // All three must outlive this.
  RuntimeSteps(const Program& program, const Runtime& runtime, StepCostFn* cost)
      : program_(program), runtime_(runtime), cost_(cost) {
    if (runtime.has_host_transport()) message_bytes_ = MessageBytesOfSegments(program);
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
  // Of messages from and to the host.
  absl::StatusOr<double> CopySeconds(int segment, const Cluster& cluster) const;
  // Host time of the segment over device time, at least 1.
  absl::StatusOr<double> HostShare(const Use& use, const Cluster& cluster, const CostOptions& options);

  const Program& program_;
  const Runtime& runtime_;
  StepCostFn* cost_;
  std::map<int32_t, int64_t> message_bytes_;
  // By segment, kind, joined steps and the cluster that its device is of.
  std::map<std::tuple<int, ActionKind, const std::vector<StepRange>*, const Cluster*>, double> host_shares_;
};

}  // namespace weft

#endif  // WEFT_SIMULATOR_RUNTIME_RUNTIME_STEPS_H_
