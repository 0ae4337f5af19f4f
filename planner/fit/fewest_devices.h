// Finds the fewest devices of a cluster that hold a model with its batch.
#ifndef WEFT_PLANNER_FIT_FEWEST_DEVICES_H_
#define WEFT_PLANNER_FIT_FEWEST_DEVICES_H_

#include "absl/status/statusor.h"
#include "planner/fit/fit.h"
#include "proto/fit_report.pb.h"

namespace weft::planner {

// Tries 1, 2, 4, … devices of one node, and then whole nodes. For each number, tries all meshes x · data · pipe that
// use these devices, with x inside a node. Axes that options.plan states keep their sizes.
//
// Each mesh is tried with the settings that save most memory: ZeRO 3, all layers recomputed, microbatches of one
// sequence, sequence parallelism. Settings that options.plan and options.recipe state stay as they are. The result is
// the mesh that needs the least memory, with as little ZeRO and recompute as fits.
//
// A mesh counts as fitting only if it fits even if its estimate is too low by the error of estimates. Numbers of nodes
// between two powers of two are tried only below the first power of two that fits.
//
// Returns ResourceExhausted, with the plan that came nearest, if nothing fits. If every mesh is refused, returns the
// first refusal.
absl::StatusOr<FewestDevices> FewestThatFit(const FitOptions& options);

// Returns the cluster with only the nodes of its first `devices` devices. Returns InvalidArgument, with the nearest
// numbers, if the cluster has fewer devices, or if `devices` is more than one node but not whole nodes.
absl::StatusOr<Cluster> PartOfCluster(const Cluster& cluster, int64_t devices);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_FIT_FEWEST_DEVICES_H_
