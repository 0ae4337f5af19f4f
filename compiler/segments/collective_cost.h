// How long collectives of segments take, for choices that are made before there is a program: which layers make a
// stage, in which order a schedule that goes by time runs, which gathered weights to keep.
#ifndef WEFT_COMPILER_SEGMENTS_COLLECTIVE_COST_H_
#define WEFT_COMPILER_SEGMENTS_COLLECTIVE_COST_H_

#include "compiler/segments/segment_set.h"
#include "proto/cluster.pb.h"
#include "proto/types.pb.h"

namespace weft {

// A cost of any step: of collectives their time alone on the `analytic` network, occupancy and latency, on the ranks of
// the lowest coordinates; `compute` of all others. What is costed so counts every collective as if it were blocking.
// Sizes are taken from the step's Work, as if all its values were of its dtype.
// `mesh` and `cluster` must outlive the function. Its errors are those of `compute` and of the network model.
StepCost WithCollectives(StepCost compute, const Mesh& mesh, const Cluster& cluster);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_COLLECTIVE_COST_H_
