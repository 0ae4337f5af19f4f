#include "compiler/models/load_model.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "catalog/catalog.h"
#include "compiler/models/import_hf.h"
#include "kernels/graph_row.h"
#include "proto/io/io.h"
#include "proto/util/printable.h"
#include "proto/util/status.h"

namespace weft {
namespace {

absl::Status At(absl::string_view source, const absl::Status& status) {
  if (status.ok() || absl::StartsWith(status.message(), source)) return status;
  return absl::Status(status.code(), absl::StrCat(source, ": ", status.message()));
}

// The name that a model gets from its path: "models/gpt2/config.json" gives gpt2, "my.textproto" gives my.
std::string NameOf(absl::string_view path) {
  std::vector<std::string> parts = absl::StrSplit(path, '/', absl::SkipEmpty());
  if (parts.empty()) return "model";
  const bool of_folder = parts.back() == "config.json" && parts.size() > 1;
  return Printable(of_folder ? parts[parts.size() - 2] : parts.back().substr(0, parts.back().rfind('.')));
}

// If `path` is a folder with a config.json, as Hugging Face writes them, returns the path of that file; otherwise
// returns `path`.
std::string FileOf(const std::string& path) {
  const std::string config = absl::StrCat(path, absl::EndsWith(path, "/") ? "" : "/", "config.json");
  std::error_code none;
  return std::filesystem::is_directory(path, none) && std::filesystem::exists(config, none) ? config : path;
}

}  // namespace

absl::StatusOr<ModelGraph> ParseModel(absl::string_view bytes, absl::string_view source, absl::string_view name) {
  ModelGraph graph;
  if (IsHuggingFaceConfig(bytes)) {
    absl::StatusOr<ModelGraph> imported = ImportHuggingFaceConfig(bytes, name);
    if (!imported.ok()) return At(source, imported.status());
    graph = *std::move(imported);
  } else {
    WEFT_RETURN_IF_ERROR(ParseMessage(bytes, source, &graph));
    if (graph.name().empty()) graph.set_name(std::string(name));
  }
  WEFT_RETURN_IF_ERROR(At(source, kernels::ValidateModelGraph(graph)));
  return graph;
}

absl::StatusOr<ModelGraph> LoadModel(const std::string& name_or_path) {
  const bool may_be_name = !absl::StrContains(name_or_path, '/');
  absl::StatusOr<CatalogFile> known = FindInCatalog("models", name_or_path);
  if (may_be_name && known.ok()) return ParseModel(known->content, absl::StrCat("catalog/", known->path), name_or_path);
  WEFT_RETURN_IF_ERROR(CheckMeansFile("models", "model", name_or_path));
  const std::string path = FileOf(name_or_path);
  WEFT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  return ParseModel(bytes, path, NameOf(path));
}

}  // namespace weft
