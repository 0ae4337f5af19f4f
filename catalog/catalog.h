// The catalog as the binary carries it, so that names work wherever the binary is.
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
  // "clusters/dgx-a100-80g.textproto", "models/gpt2/config.json".
  absl::string_view path;
  absl::string_view content;
};

// Sorted by path.
absl::Span<const CatalogFile> CatalogFiles();

// Names of the files of one kind ("clusters", "models"), sorted: "dgx-a100-80g", "gpt2".
std::vector<std::string> CatalogNames(absl::string_view kind);

// By name; NotFound lists the known names and the nearest.
absl::StatusOr<CatalogFile> FindInCatalog(absl::string_view kind, absl::string_view name);

// Whether it can only be meant as a file: with a folder, or an ending that files have and names do not ("my.json", but
// neither "llama3.1-405b" nor "llm.c").
bool LooksLikeFile(absl::string_view name_or_path);

// Of what is none of the names of `kind`, that it is to be read as a file: NotFound with the nearest names if there is
// no such file and it does not look like one. `what` is what a thing of this kind is called, "model".
absl::Status CheckMeansFile(absl::string_view kind, absl::string_view what, const std::string& name_or_path);

}  // namespace weft

#endif  // WEFT_CATALOG_CATALOG_H_
