#include "catalog/load_runtime.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "catalog/catalog.h"
#include "proto/io/io.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/validate/validate_runtime.h"

namespace weft {
namespace {

// A runtime may name another one as its `base`. A longer chain of bases is treated as a cycle.
constexpr int kLongestChain = 8;

absl::Status Annotated(const absl::Status& status, absl::string_view source) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(source, ": ", status.message()));
}

absl::StatusOr<Runtime> FromCatalog(absl::string_view name) {
  WEFT_ASSIGN_OR_RETURN(const CatalogFile file, FindInCatalog("runtimes", name));
  Runtime runtime;
  WEFT_RETURN_IF_ERROR(ParseMessage(file.content, absl::StrCat("catalog/", file.path), &runtime));
  return runtime;
}

}  // namespace

absl::StatusOr<Runtime> LoadRuntime(const std::string& name_or_path) {
  Runtime runtime;
  std::string source = name_or_path;
  const bool may_be_name = !absl::StrContains(name_or_path, '/');
  if (absl::StatusOr<Runtime> found = FromCatalog(name_or_path); may_be_name && found.ok()) {
    runtime = *std::move(found);
    source = absl::StrCat("catalog/runtimes/", name_or_path, ".textproto");
  } else {
    WEFT_RETURN_IF_ERROR(CheckMeansFile("runtimes", "runtime", name_or_path));
    WEFT_RETURN_IF_ERROR(ReadMessageInto(name_or_path, &runtime));
  }
  for (int depth = 0; !runtime.base().empty(); ++depth) {
    const std::string name = runtime.base();
    if (depth == kLongestChain) {
      return absl::InvalidArgumentError(
          absl::StrCat(source, ": runtime.base = ", Quoted(name), ": more than ", kLongestChain,
                       " runtimes build on each other; check that none builds on itself"));
    }
    const absl::StatusOr<Runtime> base = FromCatalog(name);
    if (!base.ok()) return Annotated(base.status(), absl::StrCat(source, ": runtime.base"));
    runtime.clear_base();
    runtime = Derived(*base, runtime);
    runtime.set_base(base->base());
  }
  WEFT_RETURN_IF_ERROR(Annotated(Validate(runtime), source));
  return runtime;
}

}  // namespace weft
