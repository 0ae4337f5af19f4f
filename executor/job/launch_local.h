// --bootstrap=local: this process starts one process per rank on this node and watches them. All of them end when this
// process ends.
#ifndef WEFT_EXECUTOR_JOB_LAUNCH_LOCAL_H_
#define WEFT_EXECUTOR_JOB_LAUNCH_LOCAL_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace weft::exec {

struct LocalLaunch {
  int ranks = 1;
  // The command line of each process, beginning with a program name. The program is always this executable.
  std::vector<std::string> arguments;
  // Receives one line about something that no rank could report itself.
  std::function<void(const std::string&)> on_message;
};

// Starts the processes of the job and waits until all have ended. Returns the exit status of the job: 0, or the status
// of the process that failed first (128 + the signal if a signal ended it).
//
// This process passes the signals SIGUSR1, SIGTERM, SIGINT and SIGHUP on to all processes. The same signal again
// (except SIGUSR1) ends the job within two seconds: processes that have not ended by then are named and killed. When a
// process exits with an error, the others except rank 0 get SIGTERM at once; when a signal kills one, they get no
// signal yet and can report the death. After a few seconds, all that have not ended are ended. No process outlives this
// one: the kernel kills them when this process ends, for whatever reason.
//
// The environment gives each process its rank, the address where the ranks meet (executor/job/bootstrap.h), and a
// secret that is new for each job. The ranks meet on a port of 127.0.0.1 that this process opens first, so that no
// other program can take the port.
//
// The calling process must not have other threads. Returns an error if a process could not be started; the processes
// that were started are then ended.
absl::StatusOr<int> LaunchLocal(const LocalLaunch& launch);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_JOB_LAUNCH_LOCAL_H_
