#include "catalog/catalog.h"

#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/util/suggest.h"

namespace weft {
namespace {

constexpr CatalogFile kFiles[] = {
#include "catalog/files.inc"
};

// The catalog name of the file at `path` (KIND/NAME.textproto or KIND/NAME/config.json); empty if the file is of
// another kind.
absl::string_view NameOf(absl::string_view kind, absl::string_view path) {
  if (!absl::ConsumePrefix(&path, kind) || !absl::ConsumePrefix(&path, "/")) return {};
  if (absl::ConsumeSuffix(&path, ".textproto") || absl::ConsumeSuffix(&path, "/config.json")) return path;
  return {};
}

}  // namespace

absl::Span<const CatalogFile> CatalogFiles() { return kFiles; }

std::vector<std::string> CatalogNames(absl::string_view kind) {
  std::vector<std::string> names;
  for (const CatalogFile& file : kFiles) {
    if (absl::string_view name = NameOf(kind, file.path); !name.empty()) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<CatalogFile> FindInCatalog(absl::string_view kind, absl::string_view name) {
  for (const CatalogFile& file : kFiles) {
    if (!name.empty() && NameOf(kind, file.path) == name) return file;
  }
  return absl::NotFoundError(
      absl::StrCat("no ", Quoted(name), " in the catalog of ", kind, NameHelp(name, CatalogNames(kind))));
}

bool LooksLikeFile(absl::string_view name_or_path) {
  if (absl::StrContains(name_or_path, '/')) return true;
  const size_t dot = name_or_path.rfind('.');
  if (dot == absl::string_view::npos) return false;
  const std::string ending = absl::AsciiStrToLower(name_or_path.substr(dot + 1));
  for (absl::string_view known : {"bin", "binpb", "csv", "graph", "json", "pb", "pbtxt", "prototxt", "schedule",
                                  "textpb", "textproto", "txt", "txtpb", "weft"}) {
    if (ending == known) return true;
  }
  return false;
}

absl::Status CheckMeansFile(absl::string_view kind, absl::string_view what, const std::string& name_or_path) {
  struct stat info;
  if (LooksLikeFile(name_or_path) || stat(name_or_path.c_str(), &info) == 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(what, " ", Quoted(name_or_path), " is neither a file nor in the catalog",
                                          NameHelp(name_or_path, CatalogNames(kind))));
}

}  // namespace weft
