// --bootstrap=local: this process starts one process per rank on this node, watches over them, and ends with them.
#ifndef WEFT_EXECUTOR_JOB_LAUNCH_LOCAL_H_
#define WEFT_EXECUTOR_JOB_LAUNCH_LOCAL_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weft::exec {

struct LocalLaunch {
  int ranks = 1;
  // The command line of each process: for this executable, with its name first.
  std::vector<std::string> arguments;
  // Receives one line about something that no rank could report itself.
  std::function<void(const std::string&)> on_message;
};

// Returns the exit status of the job when all of its processes have ended: 0, or that of the process that failed first
// (128 + the signal if a signal ended it).
//
// Signals that this process gets are passed on to all: SIGUSR1, SIGTERM, SIGINT, SIGHUP. The same signal again (except
// SIGUSR1) ends the job within two seconds: processes that have not ended by then are named and killed. When a process
// fails, the others have a moment to report why, and are then ended. No process outlives this one: the kernel ends them
// with it, however it ends.
//
// The processes find their place in the job in the environment (executor/job/bootstrap.h), with a secret of their own.
// They meet on a port of 127.0.0.1 that is open already, so that nobody can take it in between.
//
// Called by a process without other threads. Errors: a process could not be started; the others are then ended.
absl::StatusOr<int> LaunchLocal(const LocalLaunch& launch);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_JOB_LAUNCH_LOCAL_H_
