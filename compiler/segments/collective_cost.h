// Computes durations of the collectives in segments, for choices that are made before there is a program: how layers
// are cut into stages, the order of schedules that order their slots by time, and which gathered weights to keep.
#ifndef WEFT_COMPILER_SEGMENTS_COLLECTIVE_COST_H_
#define WEFT_COMPILER_SEGMENTS_COLLECTIVE_COST_H_

#include "compiler/segments/segment_set.h"
#include "proto/cluster.pb.h"
#include "proto/types.pb.h"

namespace weft {

// Returns a cost for any step. Steps that are not collectives cost `compute`. A collective costs the sum of its
// occupancy and its latency on the `analytic` network, on the ranks with the lowest coordinates. So every collective
// counts as if it were blocking. Sizes come from the step's Work, as if all values of the step had the Work's dtype.
// `mesh` and `cluster` must outlive the function. It returns the errors of `compute` and of the network model.
StepCost WithCollectives(StepCost compute, const Mesh& mesh, const Cluster& cluster);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_COLLECTIVE_COST_H_
