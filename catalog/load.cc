#include "catalog/load.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "catalog/catalog.h"
#include "proto/io/io.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/validate/validate.h"
#include "proto/validate/validate_runtime.h"

namespace weft {
namespace {

// A runtime may name another one as its `base`. A longer chain of bases is treated as a cycle.
constexpr int kLongestChain = 8;

// A message, and the file that it was read from.
template <typename Message>
struct Loaded {
  Message message = {};
  std::string source = {};

  absl::Status Annotated(const absl::Status& status, absl::string_view field = "") const {
    if (status.ok()) return status;
    return absl::Status(status.code(), absl::StrCat(source, ": ", field, status.message()));
  }
};

// `kind` is the catalog's folder ("clusters"), and `what` is the word for one of its entries ("cluster").
template <typename Message>
absl::StatusOr<Loaded<Message>> Load(absl::string_view kind, absl::string_view what, const std::string& name_or_path) {
  Loaded<Message> loaded{.source = name_or_path};
  const absl::StatusOr<CatalogFile> found = FindInCatalog(kind, name_or_path);
  if (found.ok() && !absl::StrContains(name_or_path, '/')) {
    loaded.source = absl::StrCat("catalog/", found->path);
    WEFT_RETURN_IF_ERROR(ParseMessage(found->content, loaded.source, &loaded.message));
  } else {
    WEFT_RETURN_IF_ERROR(CheckMeansFile(kind, what, name_or_path));
    WEFT_RETURN_IF_ERROR(ReadMessageInto(name_or_path, &loaded.message));
  }
  return loaded;
}

absl::StatusOr<Runtime> FromCatalog(absl::string_view name) {
  WEFT_ASSIGN_OR_RETURN(const CatalogFile file, FindInCatalog("runtimes", name));
  Runtime runtime;
  WEFT_RETURN_IF_ERROR(ParseMessage(file.content, absl::StrCat("catalog/", file.path), &runtime));
  return runtime;
}

}  // namespace

absl::StatusOr<Cluster> LoadCluster(const std::string& name_or_path) {
  WEFT_ASSIGN_OR_RETURN(Loaded<Cluster> loaded, Load<Cluster>("clusters", "cluster", name_or_path));
  WEFT_RETURN_IF_ERROR(loaded.Annotated(Validate(loaded.message)));
  return std::move(loaded.message);
}

absl::StatusOr<Runtime> LoadRuntime(const std::string& name_or_path) {
  WEFT_ASSIGN_OR_RETURN(Loaded<Runtime> loaded, Load<Runtime>("runtimes", "runtime", name_or_path));
  Runtime& runtime = loaded.message;
  for (int depth = 0; !runtime.base().empty(); ++depth) {
    const std::string name = runtime.base();
    if (depth == kLongestChain) {
      return absl::InvalidArgumentError(
          absl::StrCat(loaded.source, ": runtime.base = ", Quoted(name), ": more than ", kLongestChain,
                       " runtimes build on each other; check that none builds on itself"));
    }
    const absl::StatusOr<Runtime> base = FromCatalog(name);
    if (!base.ok()) return loaded.Annotated(base.status(), "runtime.base: ");
    runtime.clear_base();
    runtime = Derived(*base, runtime);
    runtime.set_base(base->base());
  }
  WEFT_RETURN_IF_ERROR(loaded.Annotated(Validate(runtime)));
  return std::move(runtime);
}

}  // namespace weft
