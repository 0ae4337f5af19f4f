// The files that `weft run` names: what is wrong with one is better known before the training.
#ifndef WEFT_CLI_RUN_RUN_FILES_H_
#define WEFT_CLI_RUN_RUN_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cli/run/run_flags.h"

namespace weft {

// Of what is read whole before the run: "" is a file that is not given, and one that is not there is for its reader to
// say. InvalidArgument, naming `flag`, for pipes and devices: each process of a job reads the file, and the first one
// would leave nothing to the others; and where nobody writes it would be waited for.
absl::Status CheckRead(absl::string_view flag, const std::string& path);

// That what a run writes can be written: --trace, --report, --save-weights, --tuning='write FILE' and the folder of
// --checkpoint. Named pipes are refused, as opening them waits for who reads them; /dev/stdout, /dev/stderr,
// /dev/fd/N and /proc/self/fd/N are open already, whatever they are.
absl::Status CheckOutputs(const RunFlags& flags);

// --fault-report of the rank, each on its own machine. The default is for whoever has not thought of faults: a working
// folder that cannot be written to is no reason not to run.
absl::Status CheckFaultReport(const std::string& path, int rank);

// Whether a rank on this machine could write it.
bool HasFaultReport(const std::string& path, int64_t ranks);

}  // namespace weft

#endif  // WEFT_CLI_RUN_RUN_FILES_H_
