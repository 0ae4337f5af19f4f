// Lower bounds on the time of a repetition of a program on a cluster, for any network and any order of steps.
//
//   compute        The largest of all ranks' sums over the compute steps of the body that are run (rule P15). A step
//                  counts max(flops / dense peak, bytes / full memory bandwidth) / speed of its device, or its costed
//                  time if that is less (measured rates may beat a stated peak, fused kernels skip masked work). A rate
//                  that the cluster does not state bounds nothing.
//   costed         The same sum over the costed times of the steps, without collectives beside them.
//   communication  The largest quotient of all ranks: bytes that the rank sends on one channel or communicator in one
//                  repetition / full bandwidth of all links that it can use (its own links inside the node and all
//                  interfaces of the node). Channels and communicators may send at the same time, so the one that sends
//                  most counts.
//
// A rank's compute stream runs one step at a time, and so does each channel and each communicator. So makespan_seconds
// is at least each of the three bounds, and so is the steady period.
#ifndef WEFT_SIMULATOR_METRICS_BOUNDS_H_
#define WEFT_SIMULATOR_METRICS_BOUNDS_H_

#include "absl/strings/string_view.h"
#include "proto/cluster.pb.h"
#include "proto/report.pb.h"
#include "simulator/network/placement.h"
#include "simulator/program/program_view.h"

namespace weft::sim {

// `view` must be built for the placement's devices. `network` is the name of the network model:
//   - "none": messages take no time, so communication is 0.
//   - "nccl": the model chooses algorithms itself, so a collective counts the fewest bytes that any algorithm sends,
//     even with switches that sum and multicast.
//   - "agnostic": the model ignores placement, so every message may use the interfaces of a node.
//   - all except "none" and "nccl" count the messages of the program's algorithms.
LowerBounds BoundsOf(const ProgramView& view, const Cluster& cluster, const RankPlacement& placement,
                     absl::string_view network);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_METRICS_BOUNDS_H_
