// Loads clusters and runtimes by catalog name or from a file.
#ifndef WEFT_CATALOG_LOAD_H_
#define WEFT_CATALOG_LOAD_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/runtime.pb.h"

namespace weft {

// LoadCluster and LoadRuntime load an entry of the catalog if the text is one of its names and has no '/'; otherwise
// they read the text as a path. They recognize a file's format by its content. The returned message is valid; errors
// name the file and the field.
absl::StatusOr<Cluster> LoadCluster(const std::string& name_or_path);

// Also fills in the fields of the runtime's `base`, so that the result is complete.
absl::StatusOr<Runtime> LoadRuntime(const std::string& name_or_path);

}  // namespace weft

#endif  // WEFT_CATALOG_LOAD_H_
