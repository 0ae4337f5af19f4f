// What would a run gain if a part of the machine were faster: the same program, simulated again on a changed cluster.
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
// All kinds of devices change (OtherDevices too; their speeds are relative, so they follow). What is stated as a
// fraction (efficiencies, tiles, oversubscription, slow interfaces) stays one, so it follows. Measured rates of kernels
// follow term by term: flops_per_second with compute, bytes_per_second with memory, overhead_seconds with launch. The
// lower edges of tables stay, and so does what a collective takes from computation beside it. The program stays: a plan
// that was chosen for the machine is not chosen again.
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

// One figure times a factor.
struct WhatIfChange {
  // One of WhatIfNames().
  std::string name;
  double factor = 1;
  // As given, e.g. "nic=2x".
  std::string text;
};

// Changes at the same time.
using WhatIfChanges = std::vector<WhatIfChange>;

std::vector<std::string> WhatIfNames();

// "nic=2x,compute=1.2x": names, each once, with factors from 0.01 to 100; the x may be left out.
absl::StatusOr<WhatIfChanges> ParseWhatIf(absl::string_view text);

// InvalidArgument, naming the change, if the models do not ask for what it changes: computation with cost "unit", links
// with network "none", latencies with network "nccl", which has its own.
absl::Status CheckWhatIf(const WhatIfChanges& changes, const SimulateOptions& options);

// The cluster with all of `changes`. FailedPrecondition, naming the figure, if it states none that a change is of.
absl::StatusOr<Cluster> ChangedCluster(const Cluster& cluster, const WhatIfChanges& changes);

// Adds a row to report->what_if for each of `what_if`; before one of several changes a row for each of these alone.
// What has a row gets no second one. InvalidArgument as CheckWhatIf, and if network "agnostic" does not ask for a
// figure of such a cluster. `report` is that of the program on the cluster, with the same options.
absl::Status AddWhatIfs(const Program& program, const Cluster& cluster, const SimulateOptions& options,
                        absl::Span<const WhatIfChanges> what_if, SimulationReport* report);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_WHAT_IF_H_
