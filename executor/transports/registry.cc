#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "executor/transport.h"

namespace weft {

using TransportOpenFn = absl::StatusOr<std::vector<std::unique_ptr<Endpoint>>>(int ranks);

#define TRANSPORT(name, function, description) TransportOpenFn function;
#include "executor/transports/registry.def"
#undef TRANSPORT

namespace {
constexpr TransportEntry kTransports[] = {
#define TRANSPORT(name, function, description) {name, &function, description},
#include "executor/transports/registry.def"
#undef TRANSPORT
};
}  // namespace

absl::Span<const TransportEntry> Transports() { return kTransports; }

absl::StatusOr<const TransportEntry*> FindTransport(absl::string_view name) {
  const absl::string_view wanted = name != "auto" ? name : RankFromLauncher().size > 0 ? "mpi" : "inproc";
  std::string known = "auto";
  for (const TransportEntry& entry : kTransports) {
    if (entry.name == wanted) return &entry;
    absl::StrAppend(&known, ", ", entry.name);
  }
  return absl::NotFoundError(absl::StrCat("no transport '", name, "'; known: ", known));
}

LauncherRank RankFromLauncher() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  LauncherRank result;
  if (rank == nullptr || size == nullptr || !absl::SimpleAtoi(rank, &result.rank) ||
      !absl::SimpleAtoi(size, &result.size)) {
    return {};
  }
  return result;
}

}  // namespace weft
