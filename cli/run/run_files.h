// Checks the files that `weft run` names, so that errors appear before the training.
#ifndef WEFT_CLI_RUN_RUN_FILES_H_
#define WEFT_CLI_RUN_RUN_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cli/run/run_flags.h"

namespace weft {

// Checks a file that is read whole before the run. Accepts "" (not given), and a missing file or a folder, which its
// reader reports. Returns InvalidArgument, naming `flag`, for pipes and devices: each process of a job reads the file,
// so the first one would leave nothing to the others, and a pipe without a writer would block.
absl::Status CheckRead(absl::string_view flag, const std::string& path);

// Checks that the run can write its outputs: --trace, --report, --save-weights, --tuning='write FILE' and the folder of
// --checkpoint. Refuses named pipes, because opening one waits for a reader. Accepts /dev/stdout, /dev/stderr,
// /dev/fd/N and /proc/self/fd/N even for pipes, because they are open already.
absl::Status CheckOutputs(const RunFlags& flags);

// Checks --fault-report for `rank`; each rank's file is on its own machine. The default (an empty path) is not checked:
// the user did not ask for it, so a working folder that cannot be written to must not stop the run.
absl::Status CheckFaultReport(const std::string& path, int rank);

// True if a fault report of one of the ranks exists on this machine.
bool HasFaultReport(const std::string& path, int64_t ranks);

}  // namespace weft

#endif  // WEFT_CLI_RUN_RUN_FILES_H_
