// Clusters by name or file.
#ifndef WEFT_CATALOG_LOAD_CLUSTER_H_
#define WEFT_CATALOG_LOAD_CLUSTER_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"

namespace weft {

// A name without '/' that the catalog has is taken from there, anything else is a path. The cluster is valid.
absl::StatusOr<Cluster> LoadCluster(const std::string& name_or_path);

}  // namespace weft

#endif  // WEFT_CATALOG_LOAD_CLUSTER_H_
