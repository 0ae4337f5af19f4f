// Checks that the cluster's switches can do the collectives that a program leaves to switches of the network.
#ifndef WEFT_COMPILER_INPUTS_SWITCH_COLLECTIVES_H_
#define WEFT_COMPILER_INPUTS_SWITCH_COLLECTIVES_H_

#include "absl/status/status.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"

namespace weft {

// Checks every group of more than one rank whose collective is done in switches (schedules/collective), in training and
// evaluation, as the ranks are placed on `cluster`. FailedPrecondition, naming the cluster's field, if a switch that
// the group's messages pass cannot sum. Also returns the errors of RankPlacement::Make. The program need not be proven,
// but its groups must name axes of its mesh.
absl::Status CheckSwitchCollectives(const Program& program, const Cluster& cluster);

}  // namespace weft

#endif  // WEFT_COMPILER_INPUTS_SWITCH_COLLECTIVES_H_
