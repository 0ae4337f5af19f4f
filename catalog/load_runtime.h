// Loads complete runtimes by catalog name or from a file.
#ifndef WEFT_CATALOG_LOAD_RUNTIME_H_
#define WEFT_CATALOG_LOAD_RUNTIME_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/runtime.pb.h"

namespace weft {

// Loads a runtime from the catalog, or from a file if the text has a '/' or is not a catalog name. A file's format is
// recognized by its content. The runtime contains the fields of its `base` and is valid. Errors name the file and the
// field.
absl::StatusOr<Runtime> LoadRuntime(const std::string& name_or_path);

}  // namespace weft

#endif  // WEFT_CATALOG_LOAD_RUNTIME_H_
