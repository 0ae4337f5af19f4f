// Validates what a cluster has besides devices and links: how nodes are joined inside and outside, which parts differ
// from the rest, which devices a job has, how runs differ, and how often a job is interrupted.
#ifndef WEFT_PROTO_VALIDATE_VALIDATE_CLUSTER_PARTS_H_
#define WEFT_PROTO_VALIDATE_VALIDATE_CLUSTER_PARTS_H_

#include <string>

#include "absl/status/status.h"
#include "proto/cluster.pb.h"

namespace weft {

absl::Status ValidateLink(const std::string& path, const Link& link);

// These functions expect a cluster whose nodes, devices_per_node and nics_per_node are in range.
absl::Status ValidateNodeLinks(const Cluster& cluster);
absl::Status ValidateFabric(const Cluster& cluster);
absl::Status ValidateOthers(const Cluster& cluster);
absl::Status ValidatePlacement(const Cluster& cluster);
absl::Status ValidateNoise(const Noise& noise);
absl::Status ValidateReliability(const Cluster& cluster);

}  // namespace weft

#endif  // WEFT_PROTO_VALIDATE_VALIDATE_CLUSTER_PARTS_H_
