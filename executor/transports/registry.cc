#include "absl/strings/str_cat.h"
#include "executor/interface/transport.h"
#include "executor/job/bootstrap.h"

namespace weft::exec {

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

// Returns the transport over which the processes of this process's launcher can reach each other; "inproc" if there is
// no launcher.
absl::string_view TransportOfLauncher() {
  const absl::StatusOr<LaunchedAs> process = FindLauncher(WantedBootstrap(), ProcessEnvironment());
  if (!process.ok() || process->size == 0) return "inproc";
  return process->bootstrap == Bootstrap::kMpi ? "mpi" : "tcp";
}
}  // namespace

absl::Span<const TransportEntry> Transports() { return kTransports; }

absl::StatusOr<const TransportEntry*> FindTransport(absl::string_view name) {
  const absl::string_view wanted = name == "auto" ? TransportOfLauncher() : name;
  std::string known = "auto";
  for (const TransportEntry& entry : kTransports) {
    if (entry.name == wanted) return &entry;
    absl::StrAppend(&known, ", ", entry.name);
  }
  return absl::NotFoundError(absl::StrCat("no transport '", name, "'; known: ", known));
}

LauncherRank RankFromLauncher() {
  const absl::StatusOr<LaunchedAs> process = FindLauncher(WantedBootstrap(), ProcessEnvironment());
  if (!process.ok()) return {};
  return {.rank = process->rank, .size = process->size, .local_rank = process->local_rank.value_or(0)};
}

}  // namespace weft::exec
