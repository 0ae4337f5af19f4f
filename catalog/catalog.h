// The catalog, embedded in the binary so that its names work wherever the binary is.
#ifndef WEFT_CATALOG_CATALOG_H_
#define WEFT_CATALOG_CATALOG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weft {

struct CatalogFile {
  // For example "clusters/dgx-a100-80g.textproto" or "models/gpt2/config.json".
  absl::string_view path;
  absl::string_view content;
};

// Sorted by path.
absl::Span<const CatalogFile> CatalogFiles();

// Names of the files of one kind ("clusters", "models"), sorted: "dgx-a100-80g", "gpt2".
std::vector<std::string> CatalogNames(absl::string_view kind);

// Finds a file by kind and name. The NotFound error lists the known names and the nearest one.
absl::StatusOr<CatalogFile> FindInCatalog(absl::string_view kind, absl::string_view name);

// True if the text can only mean a file: it has a folder, or an ending that files have and catalog names do not
// ("my.json", but neither "llama3.1-405b" nor "llm.c").
bool LooksLikeFile(absl::string_view name_or_path);

// Checks that a text that is not a catalog name of `kind` can be read as a file. Returns NotFound with the nearest
// names if no such file exists and the text does not look like a file. `what` names a thing of this kind: "model".
absl::Status CheckMeansFile(absl::string_view kind, absl::string_view what, const std::string& name_or_path);

}  // namespace weft

#endif  // WEFT_CATALOG_CATALOG_H_
