// Simulates a program again on a cluster with faster parts, to find how much time they save.
//
//   change     multiplies                                                           faster with
//   nic        inter_node.bytes_per_second                                          more
//   intra      bytes_per_second of intra_node, of direct links and of bridges       more
//   latency    latency_seconds and overhead_seconds of all links, and of switches   less (not with network nccl)
//   host       host.bytes_per_second                                                more
//   memory     memory_bytes_per_second of devices                                   more
//   compute    peaks of devices                                                     more
//   launch     launch_seconds of devices                                            less
//
// A change applies to all kinds of devices, OtherDevices too; their speeds are relative, so the speeds follow. Figures
// that are stated as fractions (efficiencies, tiles, oversubscription, slow interfaces) are not changed, so they apply
// to the changed figures. Measured rates of kernels follow term by term: flops_per_second with compute,
// bytes_per_second with memory, overhead_seconds with launch. The lower edges of tables are not changed, and neither is
// what a collective takes from the computation beside it (Device.communication_load). The program is not changed
// either: a plan that was chosen for the machine is not chosen again.
#ifndef WEFT_SIMULATOR_WHAT_IF_H_
#define WEFT_SIMULATOR_WHAT_IF_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "proto/report.pb.h"
#include "simulator/simulate.h"

namespace weft::sim {

// A change that multiplies one figure by a factor.
struct WhatIfChange {
  // One of WhatIfNames().
  std::string name;
  double factor = 1;
  // The change as it was given, e.g. "nic=2x".
  std::string text;
};

// Changes that apply at the same time.
using WhatIfChanges = std::vector<WhatIfChange>;

std::vector<std::string> WhatIfNames();

// Parses changes such as "nic=2x,compute=1.2x". Each name may occur once, factors are from 0.01 to 100, and the x may
// be left out.
absl::StatusOr<WhatIfChanges> ParseWhatIf(absl::string_view text);

// Returns InvalidArgument, naming the change, if the models do not use the figures that it changes: figures of devices
// with cost "unit", links with network "none", and latencies with network "nccl", which has its own latencies.
absl::Status CheckWhatIf(const WhatIfChanges& changes, const SimulateOptions& options);

// Returns the cluster with all of `changes` applied. FailedPrecondition, naming the figure, if the cluster does not
// state the figure that a change multiplies.
absl::StatusOr<Cluster> ChangedCluster(const Cluster& cluster, const WhatIfChanges& changes);

// Adds a row to report->what_if for each element of `what_if`. If an element has several changes, adds a row for each
// of its changes alone first. No row is added twice. InvalidArgument as in CheckWhatIf, and if network "agnostic" does
// not use a figure on such a cluster. `report` must be the report of the program on the cluster, with the same options.
absl::Status AddWhatIfs(const Program& program, const Cluster& cluster, const SimulateOptions& options,
                        absl::Span<const WhatIfChanges> what_if, SimulationReport* report);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_WHAT_IF_H_
