#include "catalog/load_cluster.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "catalog/catalog.h"
#include "proto/io/io.h"
#include "proto/util/status.h"
#include "proto/validate/validate.h"

namespace weft {

absl::StatusOr<Cluster> LoadCluster(const std::string& name_or_path) {
  Cluster cluster;
  std::string source = name_or_path;
  const bool may_be_name = !absl::StrContains(name_or_path, '/');
  const absl::StatusOr<CatalogFile> found = FindInCatalog("clusters", name_or_path);
  if (may_be_name && found.ok()) {
    source = absl::StrCat("catalog/", std::string(found->path));
    WEFT_RETURN_IF_ERROR(ParseMessage(found->content, source, &cluster));
  } else {
    WEFT_RETURN_IF_ERROR(CheckMeansFile("clusters", "cluster", name_or_path));
    WEFT_RETURN_IF_ERROR(ReadMessageInto(name_or_path, &cluster));
  }
  if (const absl::Status status = Validate(cluster); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(source, ": ", status.message()));
  }
  return cluster;
}

}  // namespace weft
