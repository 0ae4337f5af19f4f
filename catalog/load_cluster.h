// Loads clusters by catalog name or from a file.
#ifndef WEFT_CATALOG_LOAD_CLUSTER_H_
#define WEFT_CATALOG_LOAD_CLUSTER_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"

namespace weft {

// Loads a cluster from the catalog if the text is one of its names and has no '/'; otherwise reads it as a path. The
// cluster is valid.
absl::StatusOr<Cluster> LoadCluster(const std::string& name_or_path);

}  // namespace weft

#endif  // WEFT_CATALOG_LOAD_CLUSTER_H_
