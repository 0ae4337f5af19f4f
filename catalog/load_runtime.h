// Runtimes by name or file, complete.
#ifndef WEFT_CATALOG_LOAD_RUNTIME_H_
#define WEFT_CATALOG_LOAD_RUNTIME_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/runtime.pb.h"

namespace weft {

// From the catalog, or from a file if it has a '/' in it or is none of the catalog's names; read by content. What its
// `base` says is in it, and it is valid. Errors name the file and the field.
absl::StatusOr<Runtime> LoadRuntime(const std::string& name_or_path);

}  // namespace weft

#endif  // WEFT_CATALOG_LOAD_RUNTIME_H_
