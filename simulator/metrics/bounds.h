// What no repetition of a program can be faster than on a cluster, whatever the network and the order do.
//
//   compute        of the rank with most: Σ over the compute steps of the body that are run (rule P15)
//                  max(flops / dense peak, bytes / full memory bandwidth) / speed of its device, or what the step is
//                  costed if that is less (measured rates may beat a stated peak, fused kernels skip what a mask
//                  hides); a figure that is not stated bounds nothing
//   costed         the same with what the steps are costed, no collective beside them
//   communication  of the rank with most: what it sends on one stream in one repetition / full bandwidth of all links
//   that
//                  it can use: its own inside the node and all interfaces of the node. Streams may send side by side,
//                  so it is the stream that sends most
//
// A rank's compute stream runs one step at a time and so does each communicator, so makespan_seconds is at least each
// of the three, and so is the period of repetitions that settle.
#ifndef WEFT_SIMULATOR_METRICS_BOUNDS_H_
#define WEFT_SIMULATOR_METRICS_BOUNDS_H_

#include "absl/strings/string_view.h"
#include "proto/cluster.pb.h"
#include "proto/report.pb.h"
#include "simulator/network/placement.h"
#include "simulator/program/program_view.h"

namespace weft::sim {

// `view` is of the placement's devices. `network` is the model that tells times: with "none" all that is sent arrives
// at once, so communication is 0; "nccl" chooses algorithms itself, so collectives count what no algorithm can do
// without, switches that sum and multicast included; with all others they count the messages of the program's
// algorithms. With "agnostic", where ranks have no place, everything may take the interfaces of a node.
LowerBounds BoundsOf(const ProgramView& view, const Cluster& cluster, const RankPlacement& placement,
                     absl::string_view network);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_METRICS_BOUNDS_H_
