#include "cli/run/launch.h"

#include <cstdio>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/common/flags.h"
#include "executor/job/launch_local.h"
#include "proto/util/printable.h"
#include "proto/util/status.h"

namespace weft {
namespace {

constexpr char kExitStatus[] = "weft/exit_status";

exec::Bootstrap Parse(absl::string_view name) {
  for (const exec::Bootstrap bootstrap :
       {exec::Bootstrap::kNone, exec::Bootstrap::kLocal, exec::Bootstrap::kEnv, exec::Bootstrap::kMpi}) {
    if (exec::BootstrapName(bootstrap) == name) return bootstrap;
  }
  return exec::Bootstrap::kAuto;
}

bool InOneProcess(absl::string_view transport) { return transport == "inproc" || transport == "loopback"; }

}  // namespace

absl::StatusOr<Launch> ChooseLaunch(absl::string_view bootstrap, absl::string_view transport,
                                    const exec::Environment& environment) {
  exec::Bootstrap wanted = Parse(bootstrap);
  if (wanted == exec::Bootstrap::kNone && transport != "auto" && !InOneProcess(transport)) {
    return UsageError(absl::StrCat("--bootstrap=none runs all ranks in one process, but --transport=", transport,
                                   " connects several processes; allowed: --transport=inproc, loopback, auto"));
  }
  if (wanted == exec::Bootstrap::kNone || InOneProcess(transport)) {
    if (wanted != exec::Bootstrap::kAuto && wanted != exec::Bootstrap::kNone) {
      return UsageError(absl::StrCat("--bootstrap=", bootstrap, " is for jobs of several processes, but --transport=",
                                     transport, " runs all ranks in one; give one of them"));
    }
    exec::SetBootstrap(exec::Bootstrap::kNone);
    return Launch{};
  }
  if (transport == "mpi" && wanted != exec::Bootstrap::kAuto && wanted != exec::Bootstrap::kMpi) {
    return UsageError(absl::StrCat("--bootstrap=", bootstrap,
                                   " does not go with --transport=mpi: MPI's own launcher must start the processes; "
                                   "allowed: --bootstrap=mpi, auto"));
  }
  const absl::StatusOr<exec::LaunchedAs> found = exec::FindLauncher(wanted, environment);
  // One message names everything that is missing: this process's place in the job, and the address of the other
  // processes.
  const bool over_tcp = transport == "tcp" || !found.ok() || found->bootstrap == exec::Bootstrap::kEnv;
  if (over_tcp && (!found.ok() || found->size > 0)) {
    const absl::Status status = exec::FindRendezvous(wanted, environment).status();
    // The user named no launcher, but a launcher's variable is set.
    const bool unasked = wanted == exec::Bootstrap::kAuto && transport == "auto";
    if (!status.ok()) {
      return absl::Status(
          status.code(),
          absl::StrCat(
              status.message(),
              unasked ? "; to run all ranks in this process and ignore the launcher, use --transport=inproc" : ""));
    }
  }
  WEFT_ASSIGN_OR_RETURN(const exec::LaunchedAs process, found);
  if (transport == "mpi" && process.bootstrap != exec::Bootstrap::kMpi) {
    return absl::InvalidArgumentError(
        "--transport=mpi: no MPI launcher has started this process (neither OMPI_COMM_WORLD_RANK nor PMIX_RANK is "
        "set); "
        "start it as `mpirun -n RANKS weft run ...` or with srun --mpi=pmix. --bootstrap=local runs a process per rank "
        "without MPI");
  }
  Launch launch = {.bootstrap = process.bootstrap, .starts_ranks = false};
  const bool needs_processes = transport == "tcp" || transport == "nccl";
  if (process.size == 0 && (wanted == exec::Bootstrap::kLocal || needs_processes)) {
    launch = {.bootstrap = exec::Bootstrap::kLocal, .starts_ranks = true};
  }
  exec::SetBootstrap(launch.bootstrap);
  return launch;
}

std::string ChooseTransport(absl::string_view transport, absl::string_view backend, exec::Bootstrap bootstrap) {
  if (transport != "auto" || backend == "cpu") return std::string(transport);
  return bootstrap == exec::Bootstrap::kNone ? "loopback" : "nccl";
}

absl::Status RunLocally(int ranks, absl::Span<const std::string> args) {
  exec::LocalLaunch launch;
  launch.ranks = ranks;
  launch.arguments = {"weft-run", "run"};
  launch.arguments.insert(launch.arguments.end(), args.begin(), args.end());
  launch.on_message = [](const std::string& message) {
    std::fprintf(stderr, "weft run: %s\n", Printable(message).c_str());
  };
  WEFT_ASSIGN_OR_RETURN(const int exit_status, exec::LaunchLocal(launch));
  if (exit_status == 0) return absl::OkStatus();
  absl::Status status = absl::AbortedError(absl::StrCat("the job ended with status ", exit_status));
  status.SetPayload(kExitStatus, absl::Cord(absl::StrCat(exit_status)));
  return status;
}

std::optional<int> LaunchedExitStatus(const absl::Status& status) {
  const auto payload = status.GetPayload(kExitStatus);
  int value = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &value)) return std::nullopt;
  return value;
}

}  // namespace weft
