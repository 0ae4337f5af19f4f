// Signals that ask a run to stop. The first signal lets the step in progress end and the state be saved; the same
// signal again ends the process.
#ifndef WEFT_CLI_RUN_STOP_SIGNALS_H_
#define WEFT_CLI_RUN_STOP_SIGNALS_H_

#include <atomic>

namespace weft {

// Set by SIGTERM, SIGINT, SIGHUP and SIGUSR1 (some launchers pass on only SIGUSR1). Each is caught once: a second
// signal of the same number ends the process at once and removes empty folders that were made for checkpoints.
extern std::atomic<bool> stop_requested;

// Set in one process of a job whose ranks have met: this process reports on standard error that the job stops.
extern std::atomic<bool> announces_stop;

// Catches these signals from now on. SIGHUP stays ignored if it was (nohup, say). SIGPIPE is ignored: if nobody reads
// the steps any more, writing fails, and the run saves and ends.
void CatchStopSignals();

}  // namespace weft

#endif  // WEFT_CLI_RUN_STOP_SIGNALS_H_
