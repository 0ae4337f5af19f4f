// --bootstrap and --transport of weft run: what this process is in its job, or what it is to start.
#ifndef WEFT_CLI_RUN_LAUNCH_H_
#define WEFT_CLI_RUN_LAUNCH_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "executor/job/bootstrap.h"

namespace weft {

struct Launch {
  // kNone: this process runs the whole job.
  exec::Bootstrap bootstrap = exec::Bootstrap::kNone;
  // kLocal: whether this process is to start the ranks (RunLocally) and runs none itself.
  bool starts_ranks = false;
};

// From the values of the flags, "auto" among them, and the environment; where it is well, SetBootstrap has been called.
// Wrong usage (UsageError) where the two flags contradict each other.
absl::StatusOr<Launch> ChooseLaunch(absl::string_view bootstrap, absl::string_view transport,
                                    const exec::Environment& environment);

// What --transport=auto is for a backend: memory of a GPU goes through nccl between processes and through loopback
// within one; that of the host as FindTransport says. Any other name is itself.
std::string ChooseTransport(absl::string_view transport, absl::string_view backend, exec::Bootstrap bootstrap);

// Runs `weft-run run ARGS` once per rank. A status that LaunchedExitStatus knows, unless no process could be started.
absl::Status RunLocally(int ranks, absl::Span<const std::string> args);
// The exit status that a job run by others has ended with, if that is what the status says; no message goes with it.
std::optional<int> LaunchedExitStatus(const absl::Status& status);

}  // namespace weft

#endif  // WEFT_CLI_RUN_LAUNCH_H_
