// The host memory that a plan takes on the nodes of a cluster.
#ifndef WEFT_PLANNER_FIT_NODE_BYTES_H_
#define WEFT_PLANNER_FIT_NODE_BYTES_H_

#include <cstdint>

#include "planner/fit/plan_memory.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"

namespace weft::planner {

// Returns the host bytes of the node whose ranks take the most together; 0 if the cluster has fewer devices than the
// mesh.
int64_t FullestNodeBytes(const PlanMemory& memory, const Mesh& mesh, const Cluster& cluster);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_FIT_NODE_BYTES_H_
