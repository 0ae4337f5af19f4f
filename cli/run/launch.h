// Interprets --bootstrap and --transport of weft run: whether this process runs ranks of a job or starts its processes.
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
  // How the processes of the job find each other. kNone: this process runs the whole job.
  exec::Bootstrap bootstrap = exec::Bootstrap::kNone;
  // Set only for kLocal: true if this process starts the ranks (RunLocally) and runs none itself.
  bool starts_ranks = false;
};

// Chooses from the flags' values, which may be "auto", and the environment. On success SetBootstrap has been called.
// Returns a UsageError if the two flags contradict each other.
absl::StatusOr<Launch> ChooseLaunch(absl::string_view bootstrap, absl::string_view transport,
                                    const exec::Environment& environment);

// Resolves --transport=auto for a backend. For a GPU backend the result is nccl between processes and loopback within
// one process. For the CPU it is "auto", which FindTransport resolves. Any other transport is returned as it is.
std::string ChooseTransport(absl::string_view transport, absl::string_view backend, exec::Bootstrap bootstrap);

// Runs `weft-run run ARGS` once per rank. If the job fails after processes have started, LaunchedExitStatus returns the
// job's exit status from the returned error.
absl::Status RunLocally(int ranks, absl::Span<const std::string> args);
// The exit status of a job that RunLocally ran, if `status` holds it. The caller prints no message for such a status.
std::optional<int> LaunchedExitStatus(const absl::Status& status);

}  // namespace weft

#endif  // WEFT_CLI_RUN_LAUNCH_H_
