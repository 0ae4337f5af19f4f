// Durations of the collectives in segments, for choices that are made before there is a program: which layers make a
// stage, the order of a schedule that goes by time, and which gathered weights to keep.
#ifndef WEFT_COMPILER_SEGMENTS_COLLECTIVE_COST_H_
#define WEFT_COMPILER_SEGMENTS_COLLECTIVE_COST_H_

#include "compiler/segments/segment_set.h"
#include "proto/cluster.pb.h"
#include "proto/types.pb.h"

namespace weft {

// Returns a cost for any step. A collective costs its occupancy and latency alone on the `analytic` network, on the
// ranks of the lowest coordinates; every other step costs `compute`. So every collective counts as if it were blocking.
// Sizes come from the step's Work, as if all its values had its dtype. `mesh` and `cluster` must outlive the function.
// Its errors are those of `compute` and of the network model.
StepCost WithCollectives(StepCost compute, const Mesh& mesh, const Cluster& cluster);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_COLLECTIVE_COST_H_
