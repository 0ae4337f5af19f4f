// Finds the fewest devices of a cluster that hold a model with its batch.
#ifndef WEFT_PLANNER_FIT_FEWEST_DEVICES_H_
#define WEFT_PLANNER_FIT_FEWEST_DEVICES_H_

#include "absl/status/statusor.h"
#include "planner/fit/fit.h"
#include "proto/fit_report.pb.h"

namespace weft::planner {

// The numbers that are tried are 1, 2, 4, … devices of one node, and then whole nodes. For each, the meshes are all
// x · data · pipe that use these devices, with x inside a node; axes that options.plan states are fixed. Each mesh is
// first tried with what saves most: ZeRO 3, all layers recomputed, microbatches of one sequence, sequence parallelism.
// Of these, options.plan and options.recipe fix what they state. The result is the mesh with the most headroom, with as
// little of these as fits.
//
// A number of devices counts as too few if no mesh fits by its estimate, with the error of estimates to spare. Numbers
// of nodes between two powers of two are searched only below the first power that fits.
//
// ResourceExhausted if nothing fits; the error names what came nearest. InvalidArgument if every mesh is refused.
absl::StatusOr<FewestDevices> FewestThatFit(const FitOptions& options);

// Returns the cluster with only its first `devices` devices. InvalidArgument, naming the nearest numbers, if it has
// fewer, or if they are neither part of one node nor whole nodes.
absl::StatusOr<Cluster> PartOfCluster(const Cluster& cluster, int64_t devices);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_FIT_FEWEST_DEVICES_H_
